// Tables. Below 1101 pixels each row becomes a card with the column's name before each value, so that nothing has to be
// scrolled sideways beside the menu.

import { Button, Group, Table, Text } from '@mantine/core';
import { useState, type ReactNode } from 'react';

import { Empty } from './page';

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ReactNode;
  /** Numbers and money stand at the right. */
  numeric?: boolean;
  /** Left out where no row has a value. */
  optional?: boolean;
  /** Left out of cards on a narrow screen: what another column leads to, such as an id. */
  wideOnly?: boolean;
}

/** What stands where there is no value. Cards on a narrow screen leave it out. */
const none = '–';

interface TableProps<Row> {
  /** What the table has, for screen readers. */
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  id: (row: Row) => string;
  empty: ReactNode;
  /** Opens a row. The first column is then a button. */
  onOpen?: (row: Row) => void;
  /** Asks for the next page; undefined where there is none. Without it, more of a long list is shown at each click. */
  more?: () => void;
  loadingMore?: boolean;
}

/** How many more rows of a list that is here whole are shown at each click. */
const step = 100;

export function DataTable<Row>({
  caption,
  columns,
  rows,
  id,
  empty,
  onOpen,
  more,
  loadingMore = false,
}: TableProps<Row>) {
  const [bound, setBound] = useState(step);
  if (rows.length === 0) return <Empty>{empty}</Empty>;
  const hidden = more === undefined && rows.length > bound;
  const shown = hidden ? rows.slice(0, bound) : rows;
  const next = hidden ? () => setBound(bound + step) : more;
  const kept = columns.filter(({ optional, cell }) => optional !== true || rows.some((row) => cell(row) !== none));
  return (
    <>
      <Table className="cards" verticalSpacing={6} highlightOnHover>
        <caption className="visually-hidden">{caption}</caption>
        <Table.Thead>
          <Table.Tr>
            {kept.map((column) => (
              <Table.Th key={column.name} scope="col" ta={column.numeric === true ? 'right' : undefined}>
                {column.name}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {shown.map((row) => (
            <Table.Tr key={id(row)}>
              {kept.map((column, n) => (
                <Table.Td
                  key={column.name}
                  data-label={column.name}
                  data-empty={n > 0 && column.cell(row) === none ? true : undefined}
                  data-wide={column.wideOnly}
                  ta={column.numeric === true ? 'right' : undefined}
                  className={column.numeric === true ? 'tabular' : undefined}
                >
                  {n === 0 && onOpen !== undefined ? (
                    <button type="button" className="linklike" onClick={() => onOpen(row)}>
                      {column.cell(row)}
                    </button>
                  ) : (
                    column.cell(row)
                  )}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Group justify="space-between" mt="xs">
        <Text size="sm" c="var(--muted)" aria-live="polite">
          {hidden ? `${shown.length} of ${rows.length} rows` : rows.length === 1 ? '1 row' : `${rows.length} rows`}
          {more === undefined ? '' : ', and more'}
        </Text>
        {next !== undefined && (
          <Button size="xs" variant="default" onClick={next} loading={loadingMore}>
            Show more
          </Button>
        )}
      </Group>
    </>
  );
}

/** Names and values, one pair a line. */
export function Facts({ facts }: { facts: [name: string, value: ReactNode][] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
