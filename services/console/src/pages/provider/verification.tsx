import { Anchor, SegmentedControl, Select, Text } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { count, milliseconds } from '../../format/quantity';
import { useFilters } from '../../ui/filters';
import { Form, useForm } from '../../ui/form';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { useBenchmarks, useChallenges, useChanged, useStandings, type Benchmark, type Standing } from './queries';
import { benchmarkResults, benchmarkStandings, findings, kindWord, laneReasons, lanes, sentence } from './words';

type Challenge = Schemas['VerificationChallenge'];

export default function Verification() {
  const standings = useStandings();
  const models = (standings.data?.list ?? []).map((one) => one.model_id);
  return (
    <Page
      title="Verification"
      lead={
        <>
          Whether your models pass. Each is checked to be what you state: model, quantization and context window.
          Prompts and thresholds are never shown, because they would help whoever serves something else.
        </>
      }
    >
      <Section
        title="Where your models stand"
        json={standings.data}
        note={<>A model that stands in a notice gets few requests. One without a benchmark that counts gets none.</>}
      >
        <Loaded query={standings}>
          {(data) => (
            <DataTable
              caption="Where your models stand"
              columns={standingColumns}
              rows={data.list}
              id={(one) => one.model_id}
              empty="No model was looked at yet. It follows by itself once a machine offers one."
            />
          )}
        </Loaded>
      </Section>
      <Benchmarks models={models} />
      <Challenges />
    </Page>
  );
}

const standingColumns: Column<Standing>[] = [
  { name: 'Model', cell: (one) => <span className="breakable">{one.model_id}</span> },
  {
    name: 'Gets',
    cell: (one) => <State tone={lanes[one.lane]?.tone ?? 'neutral'}>{lanes[one.lane]?.word ?? one.lane}</State>,
  },
  { name: 'Why', cell: (one) => (one.lane_reason === '' ? '–' : (laneReasons[one.lane_reason] ?? one.lane_reason)) },
  { name: 'Notice or penalty', cell: (one) => <Judged of={one} /> },
  {
    name: 'Cap of the window',
    cell: (one) => (one.cap_tokens === 0 ? 'none' : `${count(one.cap_tokens)} tokens`),
    numeric: true,
  },
  {
    name: 'Benchmark',
    cell: (one) => (
      <>
        <State tone={benchmarkStandings[one.benchmark]?.tone ?? 'neutral'}>
          {benchmarkStandings[one.benchmark]?.word ?? one.benchmark}
        </State>{' '}
        {one.benchmark_expires_at !== null && (
          <>
            counts until <Moment at={one.benchmark_expires_at} />
          </>
        )}
      </>
    ),
  },
  { name: 'Next step', cell: (one) => sentence(one.next_step) },
];

function Judged({ of: one }: { of: Standing }) {
  if (one.standing === 'none') return <>none</>;
  return (
    <>
      <State tone={one.standing === 'penalty' ? 'bad' : 'warning'}>{one.standing}</State> {kindWord(one.kind)}, since{' '}
      <Moment at={one.since} />{' '}
      {one.penalty_id !== '' && (
        <Anchor component={Link} to="/provider/penalties" inherit>
          See it
        </Anchor>
      )}
    </>
  );
}

const benchmarkColumns: Column<Benchmark>[] = [
  { name: 'Began', cell: (run) => <Moment at={run.started_at} /> },
  { name: 'Model', cell: (run) => <span className="breakable">{run.model_id}</span> },
  {
    name: 'Result',
    cell: (run) => (
      <State tone={benchmarkResults[run.result] ?? 'neutral'}>
        {run.result === 'pass' ? 'passed' : run.result === 'fail' ? 'failed' : run.result}
      </State>
    ),
  },
  { name: 'By', cell: (run) => (run.basis === 'traffic' ? 'served requests' : 'challenges') },
  {
    name: 'Took',
    cell: (run) => (run.ended_at === null || run.basis === 'traffic' ? '–' : milliseconds(run.taken_ms)),
    numeric: true,
  },
  { name: 'Counts until', cell: (run) => <Moment at={run.expires_at} /> },
  {
    name: 'What was found',
    cell: (run) =>
      run.findings.length === 0
        ? '–'
        : run.findings.map((finding) => findings[finding] ?? sentence(finding.replaceAll('_', ' '))).join(' '),
  },
  { name: 'Id', wideOnly: true, cell: (run) => <Id value={run.run_id} what="benchmark id" /> },
];

function Benchmarks({ models }: { models: string[] }) {
  const [filters, set] = useFilters({ model: '' });
  const runs = useBenchmarks(filters.model);
  const rows = runs.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Section
      title="Benchmarks"
      json={rows}
      note={
        <>
          A benchmark measures speed, time to first token, answers, recall and the files. It runs by itself at the first
          offer and before 30 days end. “Void” counts for nothing: something outside your machine disturbed it.
        </>
      }
    >
      {models.length > 0 && <Ask models={models} />}
      {models.length > 1 && (
        <Select
          label="Benchmarks of"
          size="xs"
          maw={320}
          mb="sm"
          clearable
          placeholder="All models"
          value={filters.model === '' ? null : filters.model}
          onChange={(model) => set({ model: model ?? '' })}
          data={models}
        />
      )}
      <div aria-live="polite">
        <Loaded query={runs}>
          {() => (
            <DataTable
              caption="Benchmarks, the newest first"
              columns={benchmarkColumns}
              rows={rows}
              id={(run) => run.run_id}
              empty="No benchmark was taken. It runs by itself once a model is connected and healthy."
              more={runs.hasNextPage ? () => void runs.fetchNextPage() : undefined}
              loadingMore={runs.isFetchingNextPage}
            />
          )}
        </Loaded>
      </div>
    </Section>
  );
}

function Ask({ models }: { models: string[] }) {
  const [model, setModel] = useState(models[0] ?? '');
  const [asked, setAsked] = useState('');
  const changed = useChanged();
  const form = useForm(
    () => answer(api.POST('/api/v1/provider/benchmarks', { body: { model_id: model } })),
    (run) => {
      setAsked(run.model_id);
      void changed();
    },
  );
  return (
    <div style={{ maxWidth: 520, marginBottom: 16 }}>
      <Form form={form} label="Ask for a benchmark" params={['model_id']}>
        <Select
          label="Model to benchmark"
          description={
            <>
              Its machine must be connected. An hour must have gone by since the model’s last benchmark. Two failures in
              a row cost collateral, so mend what the last one found before.
            </>
          }
          value={model}
          onChange={(value) => setModel(value ?? '')}
          data={models}
          allowDeselect={false}
          searchable
          error={form.of('model_id')}
        />
      </Form>
      <Text size="sm" role="status">
        {asked === '' ? '' : `A benchmark of ${asked} is under way.`}
      </Text>
    </div>
  );
}

const challengeColumns: Column<Challenge>[] = [
  { name: 'When', cell: (one) => <Moment at={one.at} /> },
  { name: 'Model', cell: (one) => <span className="breakable">{one.model_id}</span> },
  { name: 'What it looked at', cell: (one) => kindWord(one.kind) },
  {
    name: 'Result',
    cell: (one) => (
      <State tone={one.result === 'counted' ? 'good' : one.result === 'differs' ? 'bad' : 'neutral'}>
        {one.result}
      </State>
    ),
  },
  { name: 'Sealed evidence', cell: (one) => <Id value={one.evidence_leaf} what="leaf of the evidence" /> },
];

const visibleNote =
  'Challenges of the last 90 days that the agent could tell from requests. Counted: the answer was judged. ' +
  'Void: it counts for nothing. Differs: the bytes are not those of the model’s files.';

const hiddenNote =
  'Probes of the last 30 days that looked like requests, by UTC day and kind, once the day has been over for 24 hours. ' +
  'They are paid like requests. Void: most of that day’s probes count for nothing.';

function Challenges() {
  const [filters, set] = useFilters({ flow: 'visible' });
  const flow = filters.flow === 'hidden' ? 'hidden' : 'visible';
  const query = useChallenges(flow);
  const rows = query.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Section
      title="Challenges"
      json={rows}
      actions={
        <SegmentedControl
          size="xs"
          aria-label="Challenges that are shown"
          value={flow}
          onChange={(value) => set({ flow: value })}
          data={[
            { value: 'visible', label: 'Visible' },
            { value: 'hidden', label: 'Hidden' },
          ]}
        />
      }
      note={flow === 'visible' ? visibleNote : hiddenNote}
    >
      <Loaded query={query}>
        {() => (
          <DataTable
            caption={
              flow === 'visible'
                ? 'Visible challenges, the newest first'
                : 'Hidden probes by day and kind, the newest first'
            }
            columns={flow === 'visible' ? challengeColumns : challengeColumns.slice(0, 4)}
            rows={rows}
            id={(one) => `${one.at} ${one.model_id} ${one.kind} ${one.evidence_leaf}`}
            empty={
              flow === 'visible' ? 'No challenge came in the last 90 days.' : 'No probes are old enough to be shown.'
            }
            more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
            loadingMore={query.isFetchingNextPage}
          />
        )}
      </Loaded>
    </Section>
  );
}
