// What the plans of a closed month paid to providers.

import { SimpleGrid, TextInput } from '@mantine/core';
import { useQueries, useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { less } from '../../format/amounts';
import { dollars, forChart } from '../../format/money';
import { count, percent } from '../../format/quantity';
import { Chart } from '../../ui/chart';
import { useFilters } from '../../ui/filters';
import { Empty, Figure, Loaded, Page, Section } from '../../ui/page';
import { Facts, type Column } from '../../ui/table';
import { Money, Moment, State } from '../../ui/text';

type Pool = Schemas['PlanPool'];

/** So many closed months are drawn. */
const months = 6;

export default function PlanPool() {
  const [filters, setFilters] = useFilters({ month: monthBefore(1) });
  const query = useQuery(poolOf(filters.month));
  return (
    <Page
      title="Plan pool"
      lead="The pool of a month is $6 of each paid plan invoice, less refunds. Providers share it by what they earned by
        plans, at most in full."
    >
      <Section
        title={`Month ${filters.month}`}
        json={query.data ?? undefined}
        actions={
          <TextInput
            type="month"
            size="xs"
            label="Month (UTC)"
            description="As 2026-10"
            value={filters.month}
            onChange={(event) => setFilters({ month: event.currentTarget.value })}
          />
        }
      >
        <Loaded query={query}>
          {(pool) =>
            pool === null ? (
              <Empty>
                This month is not closed. A month closes by itself once day 2 of the next month is sealed, because
                reviews take a day. Until then its plan earnings are settlement pending.
              </Empty>
            ) : (
              <Month pool={pool} />
            )
          }
        </Loaded>
      </Section>
      <LastMonths />
    </Page>
  );
}

/** A closed month; null for one that is not closed. */
function poolOf(month: string) {
  return {
    queryKey: ['stats', 'plan-pool', month],
    queryFn: async (): Promise<Pool | null> => {
      try {
        return await answer(api.GET('/api/v1/stats/plan-pool/{month}', { params: { path: { month } } }));
      } catch (thrown) {
        if (thrown instanceof ApiError && thrown.code === 'month_not_closed') return null;
        throw thrown;
      }
    },
  };
}

function Month({ pool }: { pool: Pool }) {
  const full = pool.factor >= 1;
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 3 }} mb="md">
        <Figure label="Pool" note="What the month's plans paid in">
          <Money usd={pool.pool_usd_str} />
        </Figure>
        <Figure label="Earned by plans" note={`By ${count(pool.providers)} providers, at payout prices`}>
          <Money usd={pool.earned_usd_str} />
        </Figure>
        <Figure label="Paid of what was earned" note={<Money usd={pool.paid_usd_str} />}>
          {percent(pool.factor, 2)}{' '}
          <State tone={full ? 'good' : 'warning'}>{full ? 'in full' : 'capped by the pool'}</State>
        </Figure>
      </SimpleGrid>
      <Facts
        facts={[
          ['Left for the platform', <Money key="rest" usd={less(pool.pool_usd_str, pool.paid_usd_str)} />],
          ['Records through', `${pool.through} (UTC)`],
          ['Closed', <Moment key="closed" at={pool.closed_at} withAge />],
        ]}
      />
    </>
  );
}

interface Row extends Record<string, unknown> {
  month: string;
  pool: number;
  earned: number;
  paid: number;
  of: Pool;
}

const columns: Column<Row>[] = [
  { name: 'Month', cell: (row) => <span className="tabular">{row.month}</span> },
  { name: 'Pool', numeric: true, cell: ({ of }) => <Money usd={of.pool_usd_str} /> },
  { name: 'Earned by plans', numeric: true, cell: ({ of }) => <Money usd={of.earned_usd_str} /> },
  { name: 'Paid', numeric: true, cell: ({ of }) => <Money usd={of.paid_usd_str} /> },
  { name: 'Paid of earned', numeric: true, cell: ({ of }) => percent(of.factor, 2) },
  { name: 'Providers', numeric: true, cell: ({ of }) => count(of.providers) },
];

function LastMonths() {
  const queries = useQueries({ queries: Array.from({ length: months }, (_, n) => poolOf(monthBefore(months - n))) });
  const pools = queries.flatMap(({ data }) => (data == null ? [] : [data]));
  const rows = pools.map((of): Row => ({
    month: of.month,
    pool: forChart(of.pool_usd_str),
    earned: forChart(of.earned_usd_str),
    paid: forChart(of.paid_usd_str),
    of,
  }));
  return (
    <Chart
      title="The last six months"
      kind="line"
      rows={rows}
      at="month"
      series={[
        { name: 'pool', label: 'Pool' },
        { name: 'earned', label: 'Earned by plans' },
        { name: 'paid', label: 'Paid' },
      ]}
      columns={columns}
      value={(n) => dollars(n.toFixed(2))}
      empty="No month of plans is closed yet."
      json={pools}
    />
  );
}

/** The month so many months before this one, in UTC, as 2026-10. */
function monthBefore(n: number): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - n, 1)).toISOString().slice(0, 7);
}
