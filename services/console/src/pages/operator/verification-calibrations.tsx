import { Group, Stack, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { useFilters } from '../../ui/filters';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { hex } from './binary';
import { ProviderLink } from './links';
import { useCursorList, useDone } from './lists';
import { families } from './verification-words';

type Stratum = Schemas['Stratum'] | null;

export function Calibrations() {
  return (
    <Stack>
      <Known />
      <References />
    </Stack>
  );
}

function Known() {
  const [{ model }, setFilters] = useFilters({ model: '' });
  const id = model.trim();
  const list = useCursorList(
    ['admin', 'verification', 'calibrations', id],
    (cursor) =>
      answer(
        api.GET('/api/v1/admin/verification/calibrations', {
          params: { query: { model_id: id, cursor, page_size: 100 } },
        }),
      ),
    { every: 30_000 },
  );
  const rows = list.pages.flatMap((page) => page.list);
  const runs = list.pages[0]?.runs ?? [];
  return (
    <>
      <Section
        title="Runs"
        json={runs}
        note="A run asks the references of a model until thresholds can be made of it. Figures are renewed every 30 seconds."
        actions={<Start suggested={id} />}
      >
        <Stack>
          <TextInput
            label="Model"
            description="Its id; empty for all"
            value={model}
            onChange={(event) => setFilters({ model: event.currentTarget.value })}
          />
          <Loaded query={list.query}>
            {() => (
              <div aria-live="polite">
                <DataTable
                  caption="The last 50 runs"
                  columns={runColumns}
                  rows={runs}
                  id={(run) => run.run_id}
                  empty="No calibration has run. Start one for a model that references serve."
                />
              </div>
            )}
          </Loaded>
        </Stack>
      </Section>
      <Section
        title="Calibrations that count"
        json={rows}
        note="Hosts of one stratum are judged alike. Without one that reaches penalties, the ladder ends at watch."
      >
        <Loaded query={list.query}>
          {() => (
            <DataTable
              caption="Calibrations"
              columns={columns}
              rows={rows}
              id={(one) => `${one.family} ${one.hash}`}
              empty="Nothing is calibrated yet."
              more={list.more}
              loadingMore={list.loadingMore}
            />
          )}
        </Loaded>
      </Section>
    </>
  );
}

function Start({ suggested }: { suggested: string }) {
  const done = useDone();
  const [typed, setTyped] = useState<string | null>(null);
  const model = typed ?? suggested;
  return (
    <Act
      label="Calibrate a model"
      title="Calibrate a model?"
      permission={needs['POST /api/v1/admin/verification/calibrations']}
      facts={[
        ['To whom', 'the references that serve the model'],
        ['Second person', 'none is needed'],
      ]}
      params={['model_id']}
      fields={(form) => (
        <TextInput
          label="Model"
          description="Its id in the catalog. At least one reference serves it."
          value={model}
          onChange={(event) => setTyped(event.currentTarget.value.trim())}
          error={form.of('model_id')}
        />
      )}
      run={() => {
        if (model === '')
          throw new ApiError('Name the model.', { status: 400, code: 'missing_required_parameter', param: 'model_id' });
        return answer(api.POST('/api/v1/admin/verification/calibrations', { body: { model_id: model } }));
      }}
      done={({ runs }) => {
        setTyped(null);
        done(`${runs.length} ${runs.length === 1 ? 'run is' : 'runs are'} under way.`);
      }}
    >
      References get up to thousands of challenges, for which nobody is paid. One that is under way goes on. Thresholds
      change once a run is finished.
    </Act>
  );
}

function stratumWords(stratum: Stratum): string {
  if (stratum === null) return '–';
  const quantization = stratum.quantization_class === 0 ? 'any quantization' : `${stratum.quantization_class} bits`;
  return [stratum.engine || 'any engine', quantization, stratum.gpu_class || 'any GPU'].join(', ');
}

const runColumns: Column<Schemas['CalibrationRun']>[] = [
  { name: 'Model', cell: (run) => <span className="breakable">{run.stratum?.model_id ?? '–'}</span> },
  { name: 'Stratum', cell: (run) => stratumWords(run.stratum) },
  {
    name: 'State',
    cell: (run) => (
      <State tone={run.state === 'finished' ? 'good' : run.state === 'running' ? 'busy' : 'bad'}>{run.state}</State>
    ),
  },
  { name: 'Measured', numeric: true, cell: (run) => run.samples.toLocaleString('en-US') },
  { name: 'Began', cell: (run) => <Moment at={run.started_at} withAge /> },
  { name: 'Ended', cell: (run) => <Moment at={run.ended_at} /> },
  { name: 'Because', cell: (run) => <span className="breakable">{run.reason || '–'}</span> },
  { name: 'Run', cell: (run) => <Id value={run.run_id} what="run id" /> },
];

const columns: Column<Schemas['Calibration']>[] = [
  { name: 'Model', cell: (one) => <span className="breakable">{one.stratum?.model_id ?? '–'}</span> },
  { name: 'Stratum', cell: (one) => stratumWords(one.stratum) },
  { name: 'Family', cell: (one) => families[one.family] ?? one.family },
  {
    name: 'Reaches',
    cell: (one) => <State tone={one.penal ? 'good' : 'warning'}>{one.penal ? 'penalties' : 'watch only'}</State>,
  },
  { name: 'Made', cell: (one) => <Moment at={one.made_at} withAge /> },
  { name: 'Hash', cell: (one) => <Id value={hex(one.hash)} what="calibration hash" /> },
  { name: 'Files', cell: (one) => <Id value={hex(one.stratum?.files ?? '')} what="hash of the files" /> },
];

function References() {
  const query = useQuery({
    queryKey: ['admin', 'verification', 'references'],
    queryFn: () => answer(api.GET('/api/v1/admin/verification/references')),
    refetchInterval: 30_000,
  });
  return (
    <Section
      title="References connected now"
      json={query.data}
      note="They score the answers of others. A provider becomes one on its own page."
    >
      <Loaded query={query}>
        {({ list }) => (
          <DataTable
            caption="References and what they serve"
            columns={[
              { name: 'Model', cell: (one) => <span className="breakable">{one.model_id}</span> },
              { name: 'Provider', cell: (one) => <ProviderLink id={one.provider_id} /> },
              { name: 'Machine', cell: (one) => <Id value={one.node_id} what="node id" /> },
              { name: 'Engine', cell: (one) => one.engine || '–' },
              { name: 'Quantization', cell: (one) => `${one.quantization_class} bits` },
              { name: 'GPU class', cell: (one) => one.gpu_class || '–' },
              {
                name: 'Revision',
                cell: (one) => (
                  <Group gap={2}>
                    <Id value={one.revision} what="revision" />
                  </Group>
                ),
              },
            ]}
            rows={list}
            id={(one) => `${one.node_id} ${one.model_id}`}
            empty="No reference is connected, so nothing can be judged or calibrated. Connect one, then make its provider a reference."
          />
        )}
      </Loaded>
    </Section>
  );
}
