// The models of a server, as its owner writes them.

import {
  Autocomplete,
  Button,
  Checkbox,
  Fieldset,
  Group,
  NumberInput,
  SimpleGrid,
  Stack,
  TextInput,
} from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';

type Input = Schemas['ProviderEndpointModelInput'];
type Capability = NonNullable<Input['capabilities']>[number];

/** A model as it is being written. The place keeps rows apart while they are added and removed. */
export interface Draft {
  place: number;
  model: string;
  local: string;
  context: number | '';
  capacity: number | '';
  quantization: string;
  capabilities: string[];
}

let places = 0;

export function newDraft(): Draft {
  return {
    place: ++places,
    model: '',
    local: '',
    context: '',
    capacity: '',
    quantization: '',
    capabilities: ['chat', 'stream'],
  };
}

export function draftOf(model: Schemas['ProviderEndpointModel']): Draft {
  return {
    place: ++places,
    model: model.model_id,
    local: model.local_model,
    context: model.context_length === 0 ? '' : model.context_length,
    capacity: model.capacity === 0 ? '' : model.capacity,
    quantization: model.quantization,
    capabilities: model.capabilities,
  };
}

const capabilities: { value: Capability; label: string }[] = [
  { value: 'chat', label: 'chat' },
  { value: 'stream', label: 'streams' },
  { value: 'logprobs', label: 'log-probabilities' },
  { value: 'embeddings', label: 'embeddings' },
  { value: 'images', label: 'images' },
  { value: 'transcriptions', label: 'transcriptions' },
];

export function inputOf(draft: Draft): Input {
  return {
    model_id: draft.model.trim(),
    local_model: draft.local.trim(),
    context_length: draft.context === '' ? 0 : draft.context,
    capacity: draft.capacity === '' ? 0 : draft.capacity,
    quantization: draft.quantization.trim(),
    capabilities: capabilities.filter(({ value }) => draft.capabilities.includes(value)).map(({ value }) => value),
  };
}

const most = 64;

export function EndpointModels({ models, onChange }: { models: Draft[]; onChange: (models: Draft[]) => void }) {
  const catalog = useQuery({
    queryKey: ['catalog-ids'],
    queryFn: () => answer(api.GET('/api/v1/models', { params: { query: { page_size: 200 } } })),
    staleTime: 300_000,
  });
  // Providers serve open models alone.
  const ids = (catalog.data?.data?.list ?? [])
    .filter((model) => model.active && model.kind === 'open')
    .map((model) => model.id);
  const change = (place: number, part: Partial<Draft>) =>
    onChange(models.map((model) => (model.place === place ? { ...model, ...part } : model)));
  return (
    <Stack gap="sm">
      {models.map((model, n) => (
        <One
          key={model.place}
          n={n + 1}
          model={model}
          ids={ids}
          change={(part) => change(model.place, part)}
          remove={models.length > 1 ? () => onChange(models.filter((other) => other.place !== model.place)) : undefined}
        />
      ))}
      {models.length < most && (
        <Group>
          <Button size="xs" variant="default" onClick={() => onChange([...models, newDraft()])}>
            Add a model
          </Button>
        </Group>
      )}
    </Stack>
  );
}

interface OneProps {
  n: number;
  model: Draft;
  ids: string[];
  change: (part: Partial<Draft>) => void;
  remove: (() => void) | undefined;
}

function One({ n, model, ids, change, remove }: OneProps) {
  return (
    <Fieldset legend={`Model ${n}`}>
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="sm">
        <Autocomplete
          label="Model"
          description="Its id in the catalog."
          value={model.model}
          onChange={(id) => change({ model: id })}
          data={ids}
          limit={20}
          maxLength={256}
          required
        />
        <TextInput
          label="Name on the server"
          description="Empty: the model’s id."
          value={model.local}
          onChange={(event) => change({ local: event.currentTarget.value })}
          maxLength={256}
          autoComplete="off"
        />
        <NumberInput
          label="Context window"
          description="In tokens. Empty: not said."
          value={model.context}
          onChange={(value) => change({ context: whole(value) })}
          min={1}
          max={100_000_000}
          allowDecimal={false}
          hideControls
        />
        <NumberInput
          label="Requests at once"
          description="Empty: 8."
          value={model.capacity}
          onChange={(value) => change({ capacity: whole(value) })}
          min={1}
          max={10_000}
          allowDecimal={false}
          hideControls
        />
        <TextInput
          label="Quantization"
          description="As you state it, for example fp8."
          value={model.quantization}
          onChange={(event) => change({ quantization: event.currentTarget.value })}
          maxLength={32}
          autoComplete="off"
        />
      </SimpleGrid>
      <Capabilities of={model} change={change} />
      {remove !== undefined && (
        <Button size="compact-sm" variant="subtle" color="red" mt="xs" onClick={remove}>
          Remove model {n}
        </Button>
      )}
    </Fieldset>
  );
}

function Capabilities({ of: model, change }: { of: Draft; change: (part: Partial<Draft>) => void }) {
  return (
    <Checkbox.Group
      label="Can do"
      description="Only what is ticked is asked for."
      mt="sm"
      value={model.capabilities}
      onChange={(list) => change({ capabilities: list })}
    >
      <Group gap="sm" mt={4}>
        {capabilities.map(({ value, label }) => (
          <Checkbox key={value} value={value} label={label} size="sm" />
        ))}
      </Group>
    </Checkbox.Group>
  );
}

function whole(value: number | string): number | '' {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : '';
}
