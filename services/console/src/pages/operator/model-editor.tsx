// The editor of a model: its fields with what is wrong beside each, its margins, and what saving would change.

import { Button, Group, List, SimpleGrid, Stack, Text } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { ApiError } from '../../api/error';
import { useNow } from '../../app/live';
import { Section } from '../../ui/page';
import { DataTable } from '../../ui/table';
import { Act } from './act';
import { needs } from './allowed';
import { loadCatalog, type Model } from './catalog-data';
import { check, type Draft, type Problems } from './invariants';
import { useDone } from './lists';
import { bodyOf, changesOf, consequences, draftOf, labels, priceFields, standingOf, type Change } from './model-draft';
import { ModelFacts, ModelLimits } from './model-fields';
import { ModelPrices } from './model-prices';

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
  const now = useNow();
  const isNew = current === null;
  const problems = check(draft, current === null ? null : standingOf(current), now);
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

interface SavingProps {
  draft: Draft;
  problems: Problems;
  changes: Change[];
  current: Model | null;
  onSaved: EditorProps['onSaved'];
  undo: () => void;
}

function Saving({ draft, problems, changes, current, onSaved, undo }: SavingProps) {
  const done = useDone();
  const wrong = Object.keys(labels).filter((field): field is keyof Draft => field in problems);
  const isNew = current === null;
  const said = consequences(changes, isNew);
  return (
    <Section title="What saving would change">
      <DataTable
        caption="Fields that saving would change"
        columns={[
          { name: 'Field', cell: (change: Change) => labels[change.field] },
          { name: 'Now', cell: (change) => <span className="breakable tabular">{change.from}</span> },
          { name: 'Then', cell: (change) => <span className="breakable tabular">{change.to}</span> },
        ]}
        rows={changes}
        id={(change) => change.field}
        empty="Nothing yet. Change a field above."
      />
      <div aria-live="polite">
        {changes.length > 0 && wrong.length > 0 && (
          <Text size="sm" mt="sm">
            Still wrong: {wrong.map((field) => labels[field]).join(', ')}.
          </Text>
        )}
      </div>
      <Group justify="flex-end" mt="sm">
        <Button variant="default" size="sm" onClick={undo} disabled={changes.length === 0}>
          Undo all
        </Button>
        <Act
          label={isNew ? 'Add the model' : 'Save'}
          size="sm"
          title={isNew ? `Add ${draft.model_id}?` : `Change ${draft.model_id}?`}
          permission={needs['PUT /api/v1/admin/models/{model_id}']}
          blocked={changes.length === 0 ? 'Nothing has changed.' : wrong.length > 0 ? 'Mend first what is wrong.' : ''}
          facts={[
            ['Model', draft.model_id],
            ['Fields', changes.map((change) => labels[change.field]).join(', ')],
            ['Second person', 'none is needed'],
          ]}
          run={() => save(draft, current)}
          done={(answered) => {
            done(isNew ? 'The model is in the catalog.' : 'The model is changed.');
            onSaved(draft.model_id, answered.model);
          }}
        >
          It takes effect at once.
          <List size="sm" mt="xs">
            {said.map((sentence) => (
              <List.Item key={sentence}>{sentence}</List.Item>
            ))}
          </List>
        </Act>
      </Group>
    </Section>
  );
}

/**
 * Saving replaces the whole model, and the route takes no condition. So the model is read once more, and a
 * change of another operator is not undone unseen. A save whose answer was lost is found done.
 */
async function save(draft: Draft, current: Model | null): Promise<{ model: Model | null }> {
  const found = (await loadCatalog()).find((model) => model.id === draft.model_id);
  if (found !== undefined && changesOf(draftOf(found), draft).length === 0) return { model: found };
  if (current === null && found !== undefined) {
    throw new ApiError('The catalog has a model of this id. Open it to change it.', {
      status: 409,
      code: 'already_exists',
    });
  }
  if (current !== null && (found === undefined || changesOf(draftOf(current), draftOf(found)).length > 0)) {
    throw new ApiError(
      'Another operator has changed this model meanwhile. Load the page again, then make your change.',
      {
        status: 409,
        code: 'changed_meanwhile',
      },
    );
  }
  return answer(
    api.PUT('/api/v1/admin/models/{model_id}', { params: { path: { model_id: draft.model_id } }, body: bodyOf(draft) }),
  );
}
