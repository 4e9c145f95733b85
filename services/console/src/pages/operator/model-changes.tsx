// Changes of a model that wait for their moment, and what became of earlier ones.

import { Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Moment, State, type Tone } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { operatorName } from './history';
import { useDone } from './lists';
import { ChangeTable } from './model-diff';
import { changesOf, draftOfEntry, labels } from './model-draft';

export type ModelChange = Schemas['ModelChange'];

/** The scheduled changes of a model, the newest first. */
export function useChanges(model: string) {
  return useQuery({
    queryKey: ['admin', 'catalog', 'changes', model],
    queryFn: async () => {
      const path = { model_id: model };
      return (await answer(api.GET('/api/v1/admin/models/{model_id}/changes', { params: { path } }))).list;
    },
    enabled: model !== '',
  });
}

/** The change that waits, if one does. */
export function waitingOf(changes: ModelChange[] | undefined): ModelChange | undefined {
  return changes?.find((change) => change.state === 'scheduled');
}

export function ModelChanges({ model }: { model: string }) {
  const query = useChanges(model);
  return (
    <Section
      title="Scheduled changes"
      json={query.data}
      note="What operators wrote ahead. Saving another change of the model refuses the one that waits."
    >
      <Loaded query={query}>
        {(changes) => {
          const waiting = waitingOf(changes);
          return (
            <Stack>
              {waiting === undefined ? <Text size="sm">No change waits.</Text> : <Waiting change={waiting} />}
              <Ended changes={changes.filter((change) => change !== waiting)} />
            </Stack>
          );
        }}
      </Loaded>
    </Section>
  );
}

function Waiting({ change }: { change: ModelChange }) {
  const done = useDone();
  const fields = diffOf(change);
  return (
    <>
      <Facts
        facts={[
          ['State', <StateOf key="state" change={change} />],
          ['From', <Moment key="from" at={change.effective_from} withAge />],
          ['Written by', operatorName(change.scheduled_by)],
          ['Written', <Moment key="written" at={change.scheduled_at} />],
        ]}
      />
      <ChangeTable caption="What the change that waits would change" changes={fields} empty="Nothing." />
      <div>
        <Act
          label="Cancel the change"
          title="Cancel the change that waits?"
          permission={needs['DELETE /api/v1/admin/models/{model_id}/changes/{change_id}']}
          destructive
          facts={[
            ['Model', change.model_id],
            ['From', <Moment key="from" at={change.effective_from} />],
            ['Fields', fields.map((field) => labels[field.field]).join(', ')],
            ['Second person', 'none is needed'],
          ]}
          run={() =>
            answer(
              api.DELETE('/api/v1/admin/models/{model_id}/changes/{change_id}', {
                params: { path: { model_id: change.model_id, change_id: change.change_id } },
              }),
            )
          }
          done={() => done('The change is cancelled.')}
        >
          The model stays as it is. A price that consumers see coming is no longer shown. The change does not come back;
          another can be scheduled.
        </Act>
      </div>
    </>
  );
}

function diffOf(change: ModelChange) {
  const { base, entry } = change;
  if (base === null || entry === null) return [];
  return changesOf(draftOfEntry(change.model_id, base), draftOfEntry(change.model_id, entry));
}

const tones: Record<string, Tone> = { scheduled: 'busy', applied: 'good', cancelled: 'neutral', refused: 'bad' };

function StateOf({ change }: { change: ModelChange }) {
  return <State tone={tones[change.state] ?? 'neutral'}>{change.state}</State>;
}

const columns: Column<ModelChange>[] = [
  { name: 'From', cell: (change) => <Moment at={change.effective_from} /> },
  { name: 'State', cell: (change) => <StateOf change={change} /> },
  {
    name: 'Fields',
    cell: (change) =>
      diffOf(change)
        .map((one) => `${labels[one.field]}: ${one.from} → ${one.to}`)
        .join('; '),
  },
  { name: 'Written by', cell: (change) => operatorName(change.scheduled_by) },
  { name: 'Ended', cell: (change) => <Moment at={change.ended_at} /> },
  { name: 'Ended by', cell: (change) => (change.ended_by === '' ? '–' : operatorName(change.ended_by)) },
  { name: 'Reason', cell: (change) => <span className="breakable">{change.reason || '–'}</span> },
];

function Ended({ changes }: { changes: ModelChange[] }) {
  if (changes.length === 0) return null;
  return (
    <DataTable
      caption="Earlier changes, the newest first"
      columns={columns}
      rows={changes}
      id={(change) => change.change_id}
      empty="None."
    />
  );
}
