import { Group, SegmentedControl, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { dollars, forChart } from '../../format/money';
import { count } from '../../format/quantity';
import { Chart } from '../../ui/chart';
import { CsvButton } from '../../ui/download';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money } from '../../ui/text';
import { Figures } from './figures';
import { RequestFilters } from './period';
import { given, scope } from './queries';

type Sum = Schemas['UsageGroup'];
type By = 'day' | 'key' | 'model' | 'provider';

const groupings: { value: By; label: string }[] = [
  { value: 'day', label: 'Day' },
  { value: 'key', label: 'Key' },
  { value: 'model', label: 'Model' },
  { value: 'provider', label: 'Provider' },
];

const defaults = { by: 'day', from: '', to: '', key: '', model: '' };

export default function Usage() {
  const [filters, setFilters] = useFilters(defaults);
  const by = groupings.find((one) => one.value === filters.by)?.value ?? 'day';
  const filter = { from: filters.from, to: filters.to, key: filters.key, model: filters.model };
  const usage = useQuery({
    queryKey: [scope, 'usage', by, filter],
    queryFn: () => answer(api.GET('/api/v1/consumer/usage', { params: { query: { ...given(filter), by } } })),
  });
  return (
    <Page
      title="Usage"
      lead={
        <>
          What your requests used and cost, over whole days in UTC. A request counts on the day on which it was settled.
        </>
      }
    >
      <RequestFilters filter={filter} onChange={setFilters} />
      <Group justify="space-between" align="flex-start">
        <SegmentedControl
          aria-label="Sum up by"
          value={by}
          onChange={(value) => setFilters({ by: value })}
          data={groupings}
        />
        <CsvButton
          name="usage.csv"
          load={() =>
            answer(api.GET('/api/v1/consumer/usage.csv', { params: { query: given(filter) }, parseAs: 'stream' }))
          }
        />
      </Group>
      <Loaded query={usage}>
        {(data) => (
          <Stack gap="lg">
            {data.total !== null && <Totals total={data.total} />}
            <Spend by={by} groups={data.groups} />
            <Groups by={by} data={data} />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Totals({ total }: { total: Sum }) {
  return (
    <Figures>
      <Figure label="Charged" note="Paid from credit.">
        <Money usd={total.charged_usd_str} rounded />
      </Figure>
      <Figure label="Covered by the plan" note="At list prices.">
        <Money usd={total.covered_usd_str} rounded />
      </Figure>
      <Figure label="Requests" note="That were settled.">
        {count(total.requests)}
      </Figure>
      <Figure
        label="Tokens"
        note={`${count(total.prompt_tokens)} of prompts and ${count(total.completion_tokens)} of answers.`}
      >
        {count(total.prompt_tokens + total.completion_tokens)}
      </Figure>
    </Figures>
  );
}

interface Bar extends Record<string, unknown> {
  label: string;
  charged: number;
  covered: number;
  group: Sum;
}

/** How many groups a chart can have and still be read. */
const bars = 20;

function Spend({ by, groups }: { by: By; groups: Sum[] }) {
  const rows = barsOf(by, groups);
  const title = by === 'day' ? 'Spend by day' : `Spend by ${by}${groups.length > bars ? `, the ${bars} largest` : ''}`;
  return (
    <Chart
      title={title}
      rows={rows}
      at="label"
      series={[
        { name: 'charged', label: 'Charged' },
        { name: 'covered', label: 'Covered by the plan' },
      ]}
      columns={[
        { name: nameOf(by), cell: (row) => row.label },
        { name: 'Charged', numeric: true, cell: (row) => <Money usd={row.group.charged_usd_str} /> },
        { name: 'Covered by the plan', numeric: true, cell: (row) => <Money usd={row.group.covered_usd_str} /> },
      ]}
      value={(usd) => dollars(usd.toFixed(6))}
      empty="No request was settled in these days."
    />
  );
}

function barsOf(by: By, groups: Sum[]): Bar[] {
  const shown = by === 'day' ? withGaps(groups) : groups.slice(0, bars);
  return shown.map((group) => ({
    label: labelOf(by, group),
    charged: forChart(group.charged_usd_str),
    covered: forChart(group.covered_usd_str),
    group,
  }));
}

/** Days without usage are days, too: without them a chart would hide the gaps. */
function withGaps(groups: Sum[]): Sum[] {
  const first = groups[0];
  const last = groups.at(-1);
  if (first === undefined || last === undefined) return [];
  const known = new Map(groups.map((group) => [group.of, group]));
  const all: Sum[] = [];
  for (let at = Date.parse(first.of); at <= Date.parse(last.of); at += 86_400_000) {
    const day = new Date(at).toISOString().slice(0, 10);
    all.push(known.get(day) ?? { ...nothing, of: day });
  }
  return all.length > 0 ? all : groups;
}

const nothing: Sum = {
  of: '',
  name: '',
  requests: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  images: 0,
  audio_seconds: 0,
  charged_usd_str: '0.00',
  covered_usd_str: '0.00',
};

/** A label that no other group has. */
function labelOf(by: By, group: Sum): string {
  if (by === 'key') return `${group.name || 'Key'} (${group.of.slice(-6)})`;
  return by === 'provider' ? `${group.of.slice(0, 8)}…${group.of.slice(-4)}` : group.of;
}

function nameOf(by: By): string {
  return groupings.find((one) => one.value === by)?.label ?? by;
}

function Groups({ by, data }: { by: By; data: Schemas['GetUsageResponse'] }) {
  const columns: Column<Sum>[] = [
    { name: nameOf(by), cell: (group) => <Of by={by} group={group} /> },
    { name: 'Requests', numeric: true, cell: (group) => count(group.requests) },
    { name: 'Prompt tokens', numeric: true, cell: (group) => count(group.prompt_tokens) },
    { name: 'Answer tokens', numeric: true, cell: (group) => count(group.completion_tokens) },
    { name: 'Images', numeric: true, optional: true, cell: (group) => some(group.images) },
    { name: 'Audio, s', numeric: true, optional: true, cell: (group) => some(group.audio_seconds) },
    { name: 'Charged', numeric: true, cell: (group) => <Money usd={group.charged_usd_str} /> },
    { name: 'Covered', numeric: true, cell: (group) => <Money usd={group.covered_usd_str} /> },
  ];
  return (
    <Section
      title={`All figures by ${by}`}
      json={data}
      note={
        <>
          Complete up to <Moment at={data.as_of} />.
          {data.truncated ? ' There are more groups than shown here: the totals above have them, too.' : ''}
        </>
      }
    >
      <DataTable
        caption={`Usage by ${by}`}
        columns={columns}
        rows={data.groups}
        id={(group) => group.of}
        empty="No request was settled in these days. Choose other days."
      />
    </Section>
  );
}

function Of({ by, group }: { by: By; group: Sum }) {
  if (by === 'key') {
    return (
      <span className="breakable">
        {group.name || 'Without a name'} <Id value={group.of} what="key id" />
      </span>
    );
  }
  if (by === 'provider') return <Id value={group.of} what="provider id" />;
  return <span className="breakable">{group.of}</span>;
}

/** A count, or a dash for none: most accounts ask for text alone. */
function some(n: number): string {
  return n === 0 ? '–' : count(n);
}
