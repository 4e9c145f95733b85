// Charts have a table with the same figures, for those who do not see them or want to copy them.

import { SegmentedControl, Skeleton } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';

import { Section } from './page';
import { DataTable, type Column } from './table';

export interface Series {
  /** The field of a row. */
  name: string;
  label: string;
}

interface ChartProps<Row extends Record<string, unknown>> {
  title: string;
  rows: Row[];
  /** The field that the horizontal axis has. */
  at: keyof Row & string;
  series: Series[];
  columns: Column<Row>[];
  kind?: 'bar' | 'line';
  value?: (n: number) => string;
  empty: string;
  json?: unknown;
}

// The library that draws is loaded only where something is drawn.
const Drawing = lazy(() => import('./drawing'));

/** Series over an axis. Bars of several series stand on each other. */
export function Chart<Row extends Record<string, unknown>>(props: ChartProps<Row>) {
  const { title, rows, at, series, columns, kind = 'bar', value, empty, json } = props;
  const [shown, setShown] = useState('chart');
  const drawn = shown === 'chart' && rows.length > 0;
  return (
    <Section
      title={title}
      json={json}
      actions={
        <SegmentedControl
          size="xs"
          value={shown}
          onChange={setShown}
          aria-label={`${title}: show as`}
          data={[
            { value: 'chart', label: 'Chart' },
            { value: 'table', label: 'Table' },
          ]}
        />
      }
    >
      {drawn ? (
        <div className="drawing" role="img" aria-label={`${title}. The table has the same figures.`}>
          <Suspense fallback={<Skeleton height="100%" />}>
            <Drawing rows={rows} at={at} series={series} kind={kind} value={value} />
          </Suspense>
        </div>
      ) : (
        <DataTable caption={title} columns={columns} rows={rows} id={(row) => String(row[at])} empty={empty} />
      )}
    </Section>
  );
}
