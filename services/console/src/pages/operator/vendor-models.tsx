// The models of a vendor's server, one block of inputs each.

import { Button, Fieldset, MultiSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';

import { idempotencyKey, type Schemas } from '../../api/client';

/** One model as it is typed. */
export interface ModelRow {
  /** Tells rows apart while they are edited. */
  row: string;
  model_id: string;
  local_model: string;
  capacity: string;
  context_length: string;
  quantization: string;
  capabilities: string[];
}

const capabilities = ['chat', 'stream', 'embeddings', 'images', 'transcriptions', 'logprobs'];

export function emptyModel(): ModelRow {
  return {
    row: idempotencyKey(),
    model_id: '',
    local_model: '',
    capacity: '',
    context_length: '',
    quantization: '',
    capabilities: [],
  };
}

export function rowOf(model: Schemas['ExternalModel']): ModelRow {
  return {
    row: model.model_id,
    model_id: model.model_id,
    local_model: model.local_model,
    capacity: String(model.capacity),
    context_length: model.context_length === 0 ? '' : String(model.context_length),
    quantization: model.quantization,
    capabilities: model.capabilities,
  };
}

/** A row as the API takes it. What is no number is sent as −1, so that the service names it and nothing is guessed. */
export function inputOf(row: ModelRow): Schemas['ExternalModelInput'] {
  return {
    model_id: row.model_id.trim(),
    local_model: row.local_model.trim(),
    capacity: integer(row.capacity),
    context_length: integer(row.context_length),
    quantization: row.quantization.trim(),
    capabilities: row.capabilities,
  };
}

function integer(text: string): number {
  if (text.trim() === '') return 0;
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : -1;
}

interface ModelRowsProps {
  rows: ModelRow[];
  onChange: (rows: ModelRow[]) => void;
  error: string | undefined;
}

export function ModelRows({ rows, onChange, error }: ModelRowsProps) {
  const change = (row: ModelRow) => onChange(rows.map((one) => (one.row === row.row ? row : one)));
  return (
    <Stack gap="sm">
      {rows.map((row, n) => (
        <Fieldset key={row.row} legend={`Model ${n + 1}`}>
          <ModelInputs row={row} onChange={change} />
          {rows.length > 1 && (
            <Button
              size="xs"
              variant="default"
              mt="xs"
              onClick={() => onChange(rows.filter((one) => one.row !== row.row))}
            >
              Leave model {n + 1} out
            </Button>
          )}
        </Fieldset>
      ))}
      {error !== undefined && (
        <Text size="sm" className="state-bad" role="alert">
          {error}
        </Text>
      )}
      <Button
        size="xs"
        variant="default"
        onClick={() => onChange([...rows, emptyModel()])}
        disabled={rows.length >= 64}
      >
        Add a model
      </Button>
    </Stack>
  );
}

function ModelInputs({ row, onChange }: { row: ModelRow; onChange: (row: ModelRow) => void }) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      <TextInput
        label="Model id"
        description="A gateway model of the catalog"
        value={row.model_id}
        onChange={(event) => onChange({ ...row, model_id: event.currentTarget.value })}
      />
      <TextInput
        label="Vendor’s name of it"
        description="Empty where it is the same"
        value={row.local_model}
        onChange={(event) => onChange({ ...row, local_model: event.currentTarget.value })}
      />
      <TextInput
        label="Requests at once"
        description="1 to 1,024; empty for 8"
        inputMode="numeric"
        value={row.capacity}
        onChange={(event) => onChange({ ...row, capacity: event.currentTarget.value })}
      />
      <TextInput
        label="Context, in tokens"
        description="Empty where the vendor does not say"
        inputMode="numeric"
        value={row.context_length}
        onChange={(event) => onChange({ ...row, context_length: event.currentTarget.value })}
      />
      <TextInput
        label="Quantization"
        description="Empty where it is not known"
        value={row.quantization}
        onChange={(event) => onChange({ ...row, quantization: event.currentTarget.value })}
      />
      <MultiSelect
        label="Kinds of requests"
        description="None stands for chat and stream"
        data={capabilities}
        value={row.capabilities}
        onChange={(value) => onChange({ ...row, capabilities: value })}
      />
    </SimpleGrid>
  );
}
