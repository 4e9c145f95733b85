// Whether the books agree: earnings as settlement and billing-ledger have them, and money held beside money owed.

import { SimpleGrid, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { coverage, less } from '../../format/amounts';
import { count } from '../../format/quantity';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Money, Moment, State } from '../../ui/text';
import { useFilters } from '../../ui/filters';
import { Invariants, TrialBalance } from './ledger-accounts';
import { ProviderLink } from './links';
import { books, Reserves, ReserveState, useReserves, reserveAmount } from './reserves';

type Reconciliation = Schemas['ReconcileResponse'];

export default function Books() {
  const [filters, setFilters] = useFilters({ first_day: '' });
  const query = useQuery({
    queryKey: ['admin', 'reconciliation', filters.first_day],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/reconciliation', { params: { query: { first_day: filters.first_day } } })),
    refetchInterval: 60_000,
  });
  return (
    <Page
      title="The books"
      lead="Two services keep each earning, all accounts come to zero, and the platform must hold what it owes. Here one sees
        whether all of that is so."
    >
      <Answers reconciliation={query.data} />
      <Section
        title="Earnings in both services"
        json={query.data}
        note="Settlement keeps one line for each served request. The ledger keeps what it accrued to the provider. Both must be the
          same per provider and day. Usage that is on its way shows as a difference for a minute or two; one that stays needs a person."
        actions={
          <TextInput
            type="date"
            size="xs"
            label="From (UTC)"
            description="Empty: the last seven days"
            value={filters.first_day}
            onChange={(event) => setFilters({ first_day: event.currentTarget.value })}
          />
        }
      >
        <Loaded query={query}>{(data) => <Comparison data={data} />}</Loaded>
      </Section>
      <TrialBalance />
      <Invariants />
      <Reserves />
    </Page>
  );
}

/** What an operator opens the page for, in three figures. */
function Answers({ reconciliation }: { reconciliation: Reconciliation | undefined }) {
  const reserves = useReserves();
  const whole = books(reserves.data?.list ?? []);
  const short = reserves.data?.list.filter((reserve) => reserve.short || reserve.halts) ?? [];
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }} aria-live="polite">
      <Figure
        label="Earnings"
        note={reconciliation !== undefined && `${count(reconciliation.compared)} provider days compared`}
      >
        {reconciliation === undefined ? '–' : <Equality data={reconciliation} />}
      </Figure>
      <Figure
        label="Held of what is owed, all books"
        note={
          whole !== undefined &&
          `${reserveAmount('books', whole.held)} held, ${reserveAmount('books', whole.owed)} owed`
        }
      >
        {whole === undefined ? '–' : coverage(whole.held, whole.owed)}{' '}
        {whole !== undefined && <ReserveState reserve={whole} />}
      </Figure>
      <Figure
        label="Reserves that are short"
        note={
          short.some((reserve) => reserve.halts)
            ? 'Payouts are halted until the shortfall is gone.'
            : 'No payout is halted by reserves.'
        }
      >
        {reserves.data === undefined ? '–' : count(short.length)}
      </Figure>
    </SimpleGrid>
  );
}

function Equality({ data }: { data: Reconciliation }) {
  if (data.equal) return <State tone="good">equal</State>;
  return <State tone="bad">{`${count(data.differences_total)} differ`}</State>;
}

const columns: Column<Schemas['Difference']>[] = [
  { name: 'Day', cell: (row) => <span className="tabular">{row.day}</span> },
  { name: 'Provider', cell: (row) => <ProviderLink id={row.provider_id} /> },
  { name: 'Lines', numeric: true, cell: (row) => count(row.lines) },
  { name: 'Accruals', numeric: true, cell: (row) => count(row.accruals) },
  { name: 'Settlement has', numeric: true, cell: (row) => <Money usd={row.lines_usd_str} /> },
  { name: 'Ledger has', numeric: true, cell: (row) => <Money usd={row.accruals_usd_str} /> },
  {
    name: 'Settlement less ledger',
    numeric: true,
    cell: (row) => <Money usd={less(row.lines_usd_str, row.accruals_usd_str)} />,
  },
  { name: 'Unconfirmed lines', numeric: true, cell: (row) => count(row.filled) },
];

function Comparison({ data }: { data: Reconciliation }) {
  return (
    <>
      <Facts
        facts={[
          ['Settlement has', <Money key="lines" usd={data.lines_usd_str} />],
          ['The ledger has', <Money key="accruals" usd={data.accruals_usd_str} />],
          ['Settlement less ledger', <Money key="less" usd={less(data.lines_usd_str, data.accruals_usd_str)} />],
          ['Lines that only the ledger vouches for', count(data.filled)],
          ['Worth', <Money key="filled" usd={data.filled_usd_str} />],
          ['Compared', <Moment key="at" at={data.compared_at} withAge />],
        ]}
      />
      {data.filled > 0 && (
        <Text size="sm" c="var(--muted)" mt="sm">
          A line that was filled in from the ledger is no second witness. A day with more than 1% of them waits on the
          page of settlement runs.
        </Text>
      )}
      <DataTable
        caption="Provider days on which the two services differ"
        columns={columns}
        rows={data.differences}
        id={(row) => `${row.day} ${row.provider_id}`}
        empty="Both services have the same, to the nano-dollar. There is nothing to do."
      />
      {data.differences_total > data.differences.length && (
        <Text size="sm" mt="xs">
          {count(data.differences_total)} provider days differ. The first {count(data.differences.length)} are shown;
          choose a later first day to see the others.
        </Text>
      )}
    </>
  );
}
