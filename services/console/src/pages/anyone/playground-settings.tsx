import { Button, Group, NumberInput, Select, Stack, Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { useSession } from '../../app/session';
import { Anchor, Section } from '../../ui/page';
import { PasswordInput } from '../../ui/password-input';
import { Moment } from '../../ui/text';
import { modelPath, type Model } from './catalog';
import type { Wish } from './chat';
import { keyProblem, setApiKey, useApiKey } from './key';
import type { Visits } from './visits';
import { Price, unitOf } from './words';

export interface Choice {
  id: string;
  label: string;
  /** The most tokens of an answer. */
  longest: number;
  /** Whether a provider is online for it. */
  callable: boolean;
  /** The catalog's entry, where the price counts. */
  priced?: Model;
}

export type Choices = Choice[];

type Options = Omit<Wish, 'model'>;

interface SettingsProps {
  models: Choices;
  model: Choice;
  setModel: (id: string) => void;
  options: Options;
  setOptions: (change: Partial<Options>) => void;
}

export function Settings({ models, model, setModel, options, setOptions }: SettingsProps) {
  return (
    <Section title="Settings">
      <Stack gap="sm">
        <Select
          label="Model"
          searchable
          allowDeselect={false}
          limit={100}
          nothingFoundMessage="No model that answers messages has this name."
          data={models.map(({ id, label }) => ({ value: id, label }))}
          value={model.id}
          onChange={(id) => id !== null && setModel(id)}
        />
        {model.priced !== undefined && <Costs model={model.priced} />}
        <NumberInput
          label="Longest answer, in tokens"
          description={`At most ${model.longest}.${model.priced === undefined ? '' : ' Empty: as long as the model likes.'}`}
          min={1}
          max={model.longest}
          allowDecimal={false}
          value={options.maxTokens ?? ''}
          onChange={(value) => setOptions({ maxTokens: numberOf(value) })}
        />
        <NumberInput
          label="Temperature"
          description="0 is the most even, 2 the most varied. Empty: the model’s own."
          min={0}
          max={2}
          step={0.1}
          decimalScale={2}
          value={options.temperature ?? ''}
          onChange={(value) => setOptions({ temperature: numberOf(value) })}
        />
        <Textarea
          label="System prompt"
          description="What the model is told before the conversation."
          autosize
          minRows={2}
          maxRows={8}
          maxLength={20_000}
          value={options.system}
          onChange={(event) => setOptions({ system: event.currentTarget.value })}
        />
      </Stack>
    </Section>
  );
}

function numberOf(value: number | string): number | null {
  return value === '' ? null : Number(value);
}

function Costs({ model }: { model: Model }) {
  return (
    <Text size="sm" c="var(--muted)">
      <Price model={model} side="input" usd={model.input_price_str} /> in,{' '}
      <Price model={model} side="output" usd={model.output_price_str} /> out for {unitOf(model)}.{' '}
      <Anchor component={Link} to={modelPath(model.id)} inherit underline="always">
        About the model
      </Anchor>
    </Text>
  );
}

/** Who pays: the visits of an hour, or a key. `closed` says that visitors get no answers now. */
export function Access({ visits, closed }: { visits: Visits | null; closed: boolean }) {
  const key = useApiKey();
  const session = useSession();
  return (
    <Section title="Who pays">
      <Stack gap="sm">
        {key === '' ? (
          <VisitsLeft visits={visits} closed={closed} />
        ) : (
          <Text size="sm">The account of your key pays. Its rate, its budget and its list of models apply.</Text>
        )}
        <KeyField key={key} present={key} />
        <Group gap="xs">
          {session.kind === 'user' ? (
            <Anchor component={Link} to="/keys" size="sm">
              Make a key
            </Anchor>
          ) : (
            <Anchor component={Link} to="/sign-up" size="sm">
              Sign up for a key
            </Anchor>
          )}
        </Group>
      </Stack>
    </Section>
  );
}

function VisitsLeft({ visits, closed }: { visits: Visits | null; closed: boolean }) {
  if (closed) return <Text size="sm">Nobody pays for visitors now. With a key of yours, your account pays.</Text>;
  if (visits === null) return <Text size="sm">This site pays for visitors: a few short answers an hour.</Text>;
  return (
    <Text size="sm" component="div" aria-live="polite">
      This site pays. <strong>{visits.remaining}</strong> of {visits.limit} answers are left.
      {visits.resets !== null && visits.remaining < visits.limit && (
        <>
          {' '}
          The next comes back at <Moment at={visits.resets} withAge />.
        </>
      )}
    </Text>
  );
}

function KeyField({ present }: { present: string }) {
  const [text, setText] = useState(present);
  const problem = keyProblem(text.trim());
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (problem === undefined) setApiKey(text);
      }}
    >
      <Stack gap="xs">
        <PasswordInput
          label="Consumer key"
          description="It stays in the memory of this page, until you load it again or sign out."
          placeholder="sk-svc-…"
          autoComplete="off"
          maxLength={256}
          value={text}
          error={problem}
          onChange={(event) => setText(event.currentTarget.value)}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the key' }}
        />
        <Group justify="flex-end" gap="xs">
          {present !== '' && (
            <Button size="xs" variant="default" onClick={() => setApiKey('')}>
              Forget the key
            </Button>
          )}
          <Button
            size="xs"
            type="submit"
            disabled={text.trim() === '' || text.trim() === present || problem !== undefined}
          >
            Use this key
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
