import { Group, Select } from '@mantine/core';

import { dollars, forChart } from '../../format/money';
import { Chart } from '../../ui/chart';
import { useFilters } from '../../ui/filters';
import { Loaded } from '../../ui/page';
import type { Column } from '../../ui/table';
import { Money } from '../../ui/text';
import { useStatements } from './queries';

interface Row extends Record<string, unknown> {
  day: string;
  payable: number;
  amount: string;
  posted: string | null;
  lines: number;
}

const columns: Column<Row>[] = [
  { name: 'Day (UTC)', cell: (row) => row.day },
  { name: 'Share of the batch', cell: (row) => <Money usd={row.amount} />, numeric: true },
  {
    name: 'Became payable',
    cell: (row) => (row.posted === null ? 'not yet' : <Money usd={row.posted} />),
    numeric: true,
  },
  { name: 'Lines', cell: (row) => row.lines, numeric: true },
];

/** What each daily batch made payable. Days of plans are not in it, because their month is settled whole. */
export function ByDay() {
  const [filters, set] = useFilters({ days: '31' });
  const size = { 14: 14, 31: 31, 92: 92 }[filters.days] ?? 31;
  const statements = useStatements(size);
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
      <Loaded query={statements}>
        {(data) => {
          const rows: Row[] = (data.pages[0]?.list ?? [])
            .map((one) => ({
              day: one.day,
              payable: forChart(one.amount_usd_str),
              amount: one.amount_usd_str,
              posted: one.posted_usd_str,
              lines: one.lines,
            }))
            .reverse();
          return (
            <Chart
              title="Your share of each daily batch"
              rows={rows}
              at="day"
              series={[{ name: 'payable', label: 'Share in dollars' }]}
              columns={columns}
              value={(n) => dollars(n.toFixed(4))}
              empty="No day of yours is batched yet. The first appears after 00:15 UTC of the day after your first request."
              json={data.pages[0]?.list}
            />
          );
        }}
      </Loaded>
    </>
  );
}
