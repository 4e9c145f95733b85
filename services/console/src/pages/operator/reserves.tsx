// What the platform holds beside what it owes, by token, by collateral contract, and in the books as a whole.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { coverage, usd } from '../../format/amounts';
import { dollars, units } from '../../format/money';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, State } from '../../ui/text';
import { useChainName } from './chain-names';

export type Reserve = Schemas['Reserve'];

export function useReserves() {
  return useQuery({
    queryKey: ['admin', 'reserves'],
    queryFn: () => answer(api.GET('/api/v1/admin/reserves')),
    refetchInterval: 60_000,
  });
}

/** The reading of the books as a whole. */
export function books(list: Reserve[]): Reserve | undefined {
  return list.find((reserve) => reserve.subject === 'books');
}

/** An amount of a subject. Books are in nano-dollars; USDC has six decimals on every chain, and a coin 18; the rest stays as read. */
export function reserveAmount(subject: string, amount: string): string {
  if (subject === 'books') return dollars(usd(amount));
  if (subject.endsWith(':usdc')) return `${units(amount, 6)} USDC`;
  // The coin of a chain has 18 decimals.
  if (/:(eth|native)$/i.test(subject)) return units(amount, 18);
  return units(amount, 0);
}

export function ReserveState({ reserve }: { reserve: Reserve }) {
  if (reserve.halts) return <State tone="bad">short, payouts halted</State>;
  if (reserve.short) return <State tone="warning">short in the last reading</State>;
  return <State tone="good">covered</State>;
}

export function Reserves() {
  const query = useReserves();
  const name = useChainName();
  const columns: Column<Reserve>[] = [
    { name: 'Of', cell: (row) => subjectName(row, name) },
    { name: 'State', cell: (row) => <ReserveState reserve={row} /> },
    { name: 'Held', numeric: true, cell: (row) => reserveAmount(row.subject, row.held) },
    { name: 'Owed', numeric: true, cell: (row) => reserveAmount(row.subject, row.owed) },
    { name: 'Held of owed', numeric: true, cell: (row) => coverage(row.held, row.owed) },
    { name: 'Read', cell: (row) => <Moment at={row.read_at} withAge /> },
  ];
  return (
    <Section
      title="Reserves"
      json={query.data}
      note="Each hour the platform reads, at a final block, what it holds and what it owes. A shortfall that two readings in a row
        find halts payouts. Two readings without it lift the halt; no operator can lift it before. Collateral is in the smallest unit
        of its token."
    >
      <Loaded query={query}>
        {(data) => (
          <DataTable
            caption="Reserves by subject"
            columns={columns}
            rows={data.list}
            id={(row) => row.subject}
            empty="Nothing has been read yet. The first reading comes within an hour of the start of settlement."
          />
        )}
      </Loaded>
    </Section>
  );
}

function subjectName(reserve: Reserve, chainName: (id: number) => string): string {
  if (reserve.subject === 'books') return 'All books';
  const token = reserve.subject.split(':')[1] ?? '';
  return `${chainName(reserve.chain_id)}: ${token === 'collateral' ? 'collateral contract' : token.toUpperCase()}`;
}
