// The daily runs: which day is batched, which day or provider waits for an operator, and why.

import { SimpleGrid } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { sum } from '../../format/amounts';
import { count } from '../../format/quantity';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Money, Moment, State } from '../../ui/text';
import { BlockedProviders, useBlocks } from './settlement-blocks';
import { AllowDay, DayDetail } from './settlement-day';

type Day = Schemas['BatchDay'];

export default function SettlementRuns() {
  const [filters, setFilters] = useFilters({ day: '' });
  const query = useInfiniteQuery({
    queryKey: ['admin', 'batches', 'list'],
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/admin/batches', { params: { query: { before: pageParam, page_size: 30 } } })),
    initialPageParam: '',
    getNextPageParam: (last) => (last.next_before === '' ? undefined : last.next_before),
    refetchInterval: 60_000,
  });
  const days = query.data?.pages.flatMap((page) => page.list) ?? [];
  const waiting = days.filter((day) => day.state === 'waiting');
  return (
    <Page
      title="Settlement runs"
      lead="Each sealed UTC day is collected from the ledger, checked by two witnesses, and batched: its earnings become payable."
    >
      <Answers days={days} loaded={query.isSuccess} />
      {waiting.length > 0 && <WaitingDays days={waiting} />}
      <BlockedProviders />
      <Section
        title="Days"
        json={query.data?.pages}
        note="The total is what the day's batches make payable. Filled lines rest on the ledger's word alone; 0 while the day waits."
      >
        <Loaded query={query}>
          {() => (
            <DataTable
              caption="Collected days, the newest first"
              columns={columns}
              rows={days}
              id={(day) => day.day}
              onOpen={(day) => setFilters({ day: day.day })}
              empty="No day has been collected yet. The first is, a quarter of an hour after the first midnight (UTC)."
              more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
              loadingMore={query.isFetchingNextPage}
            />
          )}
        </Loaded>
      </Section>
      <DayDetail day={filters.day} onClose={() => setFilters({ day: '' })} />
    </Page>
  );
}

const columns: Column<Day>[] = [
  { name: 'Day (UTC)', cell: (day) => <span className="tabular">{day.day}</span> },
  { name: 'State', cell: (day) => <DayState day={day} /> },
  { name: 'Lines', numeric: true, cell: (day) => count(day.lines) },
  { name: 'Filled', numeric: true, cell: (day) => count(day.filled) },
  { name: 'Total', numeric: true, cell: (day) => <Money usd={sum(day.batches.map((batch) => batch.total_usd_str))} /> },
  { name: 'Not posted', numeric: true, cell: (day) => count(sumOf(day, 'unposted')) },
  { name: 'Not signed', numeric: true, cell: (day) => count(sumOf(day, 'unsigned')) },
  { name: 'Committed', cell: (day) => <Moment at={day.committed_at} /> },
];

function DayState({ day }: { day: Day }) {
  if (day.state === 'waiting') return <State tone="warning">waiting</State>;
  if (sumOf(day, 'unposted') > 0) return <State tone="busy">committed, being posted</State>;
  return <State tone="good">{day.state}</State>;
}

function sumOf(day: Day, field: 'unposted' | 'unsigned'): number {
  return day.batches.reduce((total, batch) => total + Number(batch[field]), 0);
}

function Answers({ days, loaded }: { days: Day[]; loaded: boolean }) {
  const blocks = useBlocks();
  const last = days.find((day) => day.state === 'committed');
  const waiting = days.filter((day) => day.state === 'waiting').length;
  const blocked = new Set(blocks.data?.list.map((block) => block.provider_id)).size;
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }} aria-live="polite">
      <Figure label="Batched through" note="Earnings of later days are not payable yet.">
        {last?.day ?? '–'}
      </Figure>
      <Figure label="Days that wait" note={waiting > 0 ? 'Later days wait behind them.' : 'Nothing waits for you.'}>
        {loaded ? count(waiting) : '–'}
      </Figure>
      <Figure label="Blocked providers" note="A witness contradicts their earnings, which are not batched.">
        {blocks.data === undefined ? '–' : count(blocked)}
      </Figure>
    </SimpleGrid>
  );
}

function WaitingDays({ days }: { days: Day[] }) {
  const shown: Column<Day>[] = [
    { name: 'Day (UTC)', cell: (day) => <span className="tabular">{day.day}</span> },
    { name: 'Lines', numeric: true, cell: (day) => count(day.lines) },
    { name: 'Collected', cell: (day) => <Moment at={day.collected_at} withAge /> },
    { name: 'Act', cell: (day) => <AllowDay day={day} /> },
  ];
  return (
    <Section
      title="Days that wait"
      json={days}
      note="A day goes by itself within minutes. It stays here where more than 1% of its requests rest on the ledger's word alone, because
        settlement did not hear of them from hubs. Find out first why it did not hear. Then let the day go."
    >
      <DataTable caption="Days that wait" columns={shown} rows={days} id={(day) => day.day} empty="No day waits." />
    </Section>
  );
}
