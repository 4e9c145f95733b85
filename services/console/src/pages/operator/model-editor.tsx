// The editor of a model: its fields with what is wrong beside each, its margins, and what saving would change.

import { SimpleGrid, Stack } from '@mantine/core';
import { useState } from 'react';

import { useNow } from '../../app/live';
import { Section } from '../../ui/page';
import { type Model } from './catalog-data';
import { check, momentOf, momentProblem, type Draft } from './invariants';
import { changesOf, priceFields, standingOf, type Change } from './model-draft';
import { ModelFacts, ModelLimits } from './model-fields';
import { ModelPrices } from './model-prices';
import { Saving, type From } from './model-save';

interface EditorProps {
  initial: Draft;
  /** The model as the editor found it; null for one that does not exist yet. */
  current: Model | null;
  onSaved: (id: string, saved: Model | null) => void;
}

export interface FieldsProps {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  problem: (field: keyof Draft) => string | undefined;
  isNew: boolean;
}

export function Editor({ initial, current, onSaved }: EditorProps) {
  const [draft, setDraft] = useState(initial);
  const [from, setFrom] = useState<From>(null);
  const now = useNow();
  const isNew = current === null;
  const problems = check(
    draft,
    current === null ? null : standingOf(current),
    (from === null ? null : momentOf(from)) ?? now,
  );
  const changes = changesOf(initial, draft);
  const fields: FieldsProps = {
    draft,
    isNew,
    set: (change) => setDraft((before) => ({ ...before, ...change })),
    // An empty form is not full of errors: a new model's field complains once it was touched.
    problem: (field) => (isNew && !touched(field, changes) ? undefined : problems[field]),
  };
  return (
    <>
      <Section title={isNew ? 'The model' : 'Edit'} note="The catalog checks all of this again when it is saved.">
        <Stack>
          <SimpleGrid cols={{ base: 1, sm: 2, md: 3 }}>
            <ModelFacts {...fields} />
            <ModelLimits {...fields} />
          </SimpleGrid>
        </Stack>
      </Section>
      <ModelPrices {...fields} current={current} />
      <Saving
        draft={draft}
        problems={problems}
        changes={changes}
        current={current}
        from={from}
        setFrom={setFrom}
        wrongMoment={from === null ? '' : momentProblem(from, now)}
        onSaved={onSaved}
        undo={() => setDraft(initial)}
      />
    </>
  );
}

/** Prices are judged together, so one that was touched touches all. */
function touched(field: keyof Draft, changes: Change[]): boolean {
  const isPrice = (name: keyof Draft) => priceFields.some((price) => price === name);
  return changes.some((change) => change.field === field || (isPrice(field) && isPrice(change.field)));
}
