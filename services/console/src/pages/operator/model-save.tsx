// What saving a model would change, and the save: at once, or scheduled for a moment.

import { Button, Group, List, NativeSelect, Text, TextInput } from '@mantine/core';

import { answer, api } from '../../api/client';
import { ApiError } from '../../api/error';
import { Section } from '../../ui/page';
import { Moment } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { loadCatalog, type Model } from './catalog-data';
import { momentOf, type Draft, type Problems } from './invariants';
import { useDone } from './lists';
import { useChanges, waitingOf } from './model-changes';
import { ChangeTable } from './model-diff';
import { bodyOf, changesOf, consequences, draftOf, labels, type Change } from './model-draft';

/** From when a save holds: null for at once, or a moment in UTC as an input writes it. */
export type From = string | null;

interface SavingProps {
  draft: Draft;
  problems: Problems;
  changes: Change[];
  current: Model | null;
  from: From;
  setFrom: (from: From) => void;
  /** What is wrong with the moment; empty for nothing. */
  wrongMoment: string;
  onSaved: (id: string, saved: Model | null) => void;
  undo: () => void;
}

export function Saving(props: SavingProps) {
  const { draft, problems, changes, current, from, wrongMoment, undo } = props;
  const wrong = Object.keys(labels).filter((field): field is keyof Draft => field in problems);
  const blocked = changes.length === 0 ? 'Nothing has changed.' : wrong.length > 0 ? 'Mend first what is wrong.' : '';
  return (
    <Section title="What saving would change">
      <ChangeTable
        caption="Fields that saving would change"
        changes={changes}
        empty="Nothing yet. Change a field above."
      />
      <div aria-live="polite">
        {changes.length > 0 && wrong.length > 0 && (
          <Text size="sm" mt="sm">
            Still wrong: {wrong.map((field) => labels[field]).join(', ')}.
          </Text>
        )}
      </div>
      {current !== null && <FromWhen {...props} />}
      <Group justify="flex-end" mt="sm">
        <Button variant="default" size="sm" onClick={undo} disabled={changes.length === 0}>
          Undo all
        </Button>
        {from === null || current === null ? (
          <SaveNow {...props} blocked={blocked} />
        ) : (
          <Schedule {...props} current={current} from={from} blocked={blocked || wrongMoment} key={draft.model_id} />
        )}
      </Group>
    </Section>
  );
}

function FromWhen({ from, setFrom, wrongMoment }: SavingProps) {
  return (
    <Group align="flex-start" mt="sm">
      <NativeSelect
        label="From"
        description="When the change holds."
        value={from === null ? 'now' : 'moment'}
        data={[
          { value: 'now', label: 'now' },
          { value: 'moment', label: 'a moment ahead' },
        ]}
        onChange={(event) => setFrom(event.currentTarget.value === 'now' ? null : '')}
      />
      {from !== null && (
        <TextInput
          type="datetime-local"
          label="Moment (UTC)"
          description="A minute to 90 days ahead."
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
          error={from === '' ? undefined : wrongMoment || undefined}
        />
      )}
    </Group>
  );
}

function SaveNow({ draft, changes, current, blocked, onSaved }: SavingProps & { blocked: string }) {
  const done = useDone();
  const isNew = current === null;
  const waiting = waitingOf(useChanges(current?.id ?? '').data);
  return (
    <Act
      label={isNew ? 'Add the model' : 'Save'}
      size="sm"
      title={isNew ? `Add ${draft.model_id}?` : `Change ${draft.model_id}?`}
      permission={needs['PUT /api/v1/admin/models/{model_id}']}
      blocked={blocked}
      facts={facts(draft, changes)}
      run={() => save(draft, current)}
      done={(answered) => {
        done(isNew ? 'The model is in the catalog.' : 'The model is changed.');
        onSaved(draft.model_id, answered.model);
      }}
    >
      It takes effect at once.
      {waiting !== undefined && (
        <>
          {' '}
          The change that waits for <Moment at={waiting.effective_from} /> is refused by it, because it was written for
          the model as it is now.
        </>
      )}
      <Consequences said={consequences(changes, isNew, 'at once')} />
    </Act>
  );
}

interface ScheduleProps extends SavingProps {
  current: Model;
  from: string;
  blocked: string;
}

function Schedule({ draft, changes, current, from, blocked, onSaved }: ScheduleProps) {
  const done = useDone();
  const waiting = waitingOf(useChanges(current.id).data);
  const at = momentOf(from);
  const iso = at === null ? '' : new Date(at).toISOString();
  return (
    <Act
      label="Schedule"
      size="sm"
      title={`Schedule a change of ${draft.model_id}?`}
      permission={needs['POST /api/v1/admin/models/{model_id}/changes']}
      blocked={waiting === undefined ? blocked : 'A change waits already. Cancel it first.'}
      facts={[['From', <Moment key="from" at={iso} withAge />], ...facts(draft, changes)]}
      run={() => schedule(draft, current, iso)}
      done={() => {
        done('The change waits for its moment.');
        onSaved(draft.model_id, null);
      }}
    >
      The catalog puts it in force within seconds of the moment. It is refused if the model is changed before, or if it
      cannot stand any more. Consumers see the prices that come.
      <Consequences said={consequences(changes, false, 'at the moment')} />
    </Act>
  );
}

function facts(draft: Draft, changes: Change[]): [string, string][] {
  return [
    ['Model', draft.model_id],
    ['Fields', changes.map((change) => labels[change.field]).join(', ')],
    ['Second person', 'none is needed'],
  ];
}

function Consequences({ said }: { said: string[] }) {
  return (
    <List size="sm" mt="xs">
      {said.map((sentence) => (
        <List.Item key={sentence}>{sentence}</List.Item>
      ))}
    </List>
  );
}

/**
 * Saving replaces the whole model, and the route takes no condition. So the model is read once more, and a
 * change of another operator is not undone unseen. A save whose answer was lost is found done.
 */
async function save(draft: Draft, current: Model | null): Promise<{ model: Model | null }> {
  const found = await find(draft.model_id);
  if (found !== undefined && changesOf(draftOf(found), draft).length === 0) return { model: found };
  if (current === null && found !== undefined) {
    throw new ApiError('The catalog has a model of this id. Open it to change it.', {
      status: 409,
      code: 'already_exists',
    });
  }
  if (current !== null) assertSame(current, found);
  return answer(
    api.PUT('/api/v1/admin/models/{model_id}', { params: { path: { model_id: draft.model_id } }, body: bodyOf(draft) }),
  );
}

/** The base of a change is the model as the call finds it. The same again is the same change while it waits. */
async function schedule(draft: Draft, current: Model, from: string) {
  assertSame(current, await find(draft.model_id));
  return answer(
    api.POST('/api/v1/admin/models/{model_id}/changes', {
      params: { path: { model_id: draft.model_id } },
      body: { effective_from: from, entry: bodyOf(draft) },
    }),
  );
}

async function find(id: string): Promise<Model | undefined> {
  return (await loadCatalog()).find((model) => model.id === id);
}

function assertSame(current: Model, found: Model | undefined) {
  if (found !== undefined && changesOf(draftOf(current), draftOf(found)).length === 0) return;
  throw new ApiError('Another operator has changed this model meanwhile. Load the page again, then make your change.', {
    status: 409,
    code: 'changed_meanwhile',
  });
}
