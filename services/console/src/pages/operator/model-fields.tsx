// The fields of a model beside its prices.

import { Checkbox, NativeSelect, Text, TextInput, Textarea } from '@mantine/core';
import { useState } from 'react';

import type { Draft } from './invariants';
import { labels, withCategory } from './model-draft';
import type { FieldsProps } from './model-editor';

type TextField = { [K in keyof Draft]: Draft[K] extends string ? K : never }[keyof Draft];

interface FieldProps extends FieldsProps {
  field: TextField;
  note: string;
  disabled?: boolean;
  numeric?: boolean;
}

function Field({ draft, set, problem, field, note, disabled = false, numeric = false }: FieldProps) {
  return (
    <TextInput
      label={labels[field]}
      description={note}
      value={draft[field]}
      onChange={(event) => set({ [field]: event.currentTarget.value.trim() })}
      error={problem(field)}
      disabled={disabled}
      inputMode={numeric ? 'numeric' : undefined}
      autoComplete="off"
      spellCheck={false}
    />
  );
}

/** What the model is. */
export function ModelFacts(props: FieldsProps) {
  const { draft, set, problem, isNew } = props;
  return (
    <>
      <Field
        {...props}
        field="model_id"
        note={isNew ? 'What requests name, such as vendor/model. It never changes.' : 'It never changes.'}
        disabled={!isNew}
      />
      <TextInput
        label={labels.name}
        description="For people. Empty takes the id."
        value={draft.name}
        onChange={(event) => set({ name: event.currentTarget.value })}
        error={problem('name')}
        autoComplete="off"
      />
      <Field {...props} field="slug" note="For addresses. Empty takes the id with dashes." />
      <NativeSelect
        label={labels.category}
        description="It decides endpoints, limits and the unit of prices."
        value={draft.category}
        data={['llm', 'multimodal', 'embedding', 'image', 'audio']}
        onChange={(event) => set(withCategory(draft, event.currentTarget.value))}
        error={problem('category')}
      />
      <NativeSelect
        label={labels.kind}
        description={isNew ? 'It never changes.' : 'It never changes. Give the model another id instead.'}
        value={draft.kind}
        disabled={!isNew}
        data={[
          { value: 'open', label: 'open: providers' },
          { value: 'gateway', label: 'gateway: a vendor' },
        ]}
        onChange={(event) => set(ofKind(draft, event.currentTarget.value))}
        error={problem('kind')}
      />
      <NativeSelect
        label={labels.tier}
        description="The Token Plan covers free and standard."
        value={draft.tier}
        data={['free', 'standard', 'premium']}
        onChange={(event) => set({ tier: event.currentTarget.value })}
        error={problem('tier')}
      />
    </>
  );
}

function ofKind(draft: Draft, kind: string): Partial<Draft> {
  if (kind === 'gateway') return { kind, tier: 'premium' };
  return { kind, tier: draft.tier === 'premium' ? 'standard' : draft.tier, payout_cached_input_price: '' };
}

/** What the model can, what it needs, and until when it is there. */
export function ModelLimits(props: FieldsProps) {
  const { draft, set, problem } = props;
  return (
    <>
      <Field {...props} field="context_length" note="Tokens of prompt and answer together." numeric />
      <Field
        {...props}
        field="max_output_tokens"
        note="Tokens of one answer at most. 0 stands for the window."
        numeric
      />
      <Field {...props} field="min_vram_gb" note="GB of memory that a GPU needs. 0 stands for not known." numeric />
      <Words {...props} field="capabilities" note="Such as chat, stream, tools, vision." />
      <Words {...props} field="supported_parameters" note="Such as temperature, top_p, seed." />
      <Field
        {...props}
        field="successor"
        note="Id of the model that takes its place. It can be changed, but not taken back."
      />
      <TextInput
        type="date"
        label={labels.deprecated_at}
        description="At the beginning of that day in UTC, at least 30 days ahead. Empty for a model that stays."
        value={draft.deprecated_at.slice(0, 10)}
        onChange={(event) => set({ deprecated_at: event.currentTarget.value })}
        error={problem('deprecated_at')}
      />
      <div>
        <Checkbox
          label={labels.active}
          checked={draft.active}
          onChange={(event) => set({ active: event.currentTarget.checked })}
          mt={{ base: 0, sm: 24 }}
        />
        <Text size="xs" c="var(--muted)" mt={4}>
          A model out of service stays in the catalog, and nobody can call it.
        </Text>
      </div>
    </>
  );
}

/** A list of words. The text is kept as it is typed, so that a word that begins is not taken away. */
function Words({
  draft,
  set,
  problem,
  field,
  note,
}: FieldsProps & { field: 'capabilities' | 'supported_parameters'; note: string }) {
  const [typed, setTyped] = useState<string | null>(null);
  const known = draft[field].join(' ');
  const shown = typed !== null && wordsOf(typed).join(' ') === known ? typed : known;
  return (
    <Textarea
      label={labels[field]}
      description={`${note} Words between spaces or commas.`}
      value={shown}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        set({ [field]: wordsOf(event.currentTarget.value) });
      }}
      error={problem(field)}
      autosize
      minRows={1}
      maxRows={6}
      spellCheck={false}
    />
  );
}

function wordsOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}
