import { Group, Select } from '@mantine/core';

import { dollars, forChart } from '../../format/money';
import { Chart } from '../../ui/chart';
import { useFilters } from '../../ui/filters';
import { Loaded } from '../../ui/page';
import type { Column } from '../../ui/table';
import { Money } from '../../ui/text';
import { useEarningsByDay, type Earnings } from './queries';

type Day = NonNullable<Earnings['by_day']>[number];

interface Row extends Record<string, unknown> {
  day: string;
  /** Where each part is drawn: numbers for the chart alone. */
  settled: number;
  pending: number;
  held: number;
  unbatched: number;
  of: Day;
}

const columns: Column<Row>[] = [
  { name: 'Day (UTC)', cell: (row) => row.day },
  { name: 'Earned', cell: (row) => <Money usd={row.of.earned_usd_str} />, numeric: true },
  { name: 'By credit', cell: (row) => <Money usd={row.of.settled_usd_str} />, numeric: true },
  { name: 'By plans', cell: (row) => <Money usd={row.of.settlement_pending_usd_str} />, numeric: true },
  { name: 'Held', cell: (row) => <Money usd={row.of.held_usd_str} />, numeric: true },
  { name: 'Not batched yet', cell: (row) => <Money usd={row.of.unbatched_usd_str} />, numeric: true },
];

const series = [
  { name: 'settled', label: 'By credit' },
  { name: 'pending', label: 'By plans' },
  { name: 'held', label: 'Held' },
  { name: 'unbatched', label: 'Not batched yet' },
];

/** What was earned on each day, split as it will move on. */
export function ByDay() {
  const [filters, set] = useFilters({ days: '31' });
  const size = { 14: 14, 31: 31, 92: 92 }[filters.days] ?? 31;
  const earnings = useEarningsByDay(size);
  return (
    <>
      <Group>
        <Select
          label="Days in the chart"
          size="xs"
          w={160}
          value={String(size)}
          onChange={(days) => set({ days: days ?? '31' })}
          data={['14', '31', '92']}
          allowDeselect={false}
        />
      </Group>
      <Loaded query={earnings}>
        {({ by_day: days = [] }) => (
          <Chart
            title="What you earned by day, in dollars"
            rows={days.map((day) => ({
              day: day.day,
              settled: forChart(day.settled_usd_str),
              pending: forChart(day.settlement_pending_usd_str),
              held: forChart(day.held_usd_str),
              unbatched: forChart(day.unbatched_usd_str),
              of: day,
            }))}
            at="day"
            series={series}
            columns={columns}
            value={(n) => dollars(n.toFixed(4))}
            empty="No day can be told now."
            json={days}
          />
        )}
      </Loaded>
    </>
  );
}
