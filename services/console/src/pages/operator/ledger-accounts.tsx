// The trial balance: what every kind of account comes to, and the totals, which are zero.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, Money, State } from '../../ui/text';

type Balance = Schemas['LedgerBalance'];

export function useTrialBalance() {
  return useQuery({
    queryKey: ['admin', 'ledger-accounts'],
    queryFn: () => answer(api.GET('/api/v1/admin/ledger/accounts')),
    refetchInterval: 60_000,
  });
}

/** An amount of the ledger: dollars, or units of a token, which have no decimals here. */
export function LedgerAmount({ asset, amount }: { asset: string; amount: string }) {
  if (asset === 'usd') return <Money usd={amount} />;
  return (
    <>
      {count(amount)} {asset}
    </>
  );
}

const columns: Column<Balance>[] = [
  { name: 'Account', cell: (row) => <span className="breakable">{row.account_kind}</span> },
  { name: 'Book', cell: (row) => row.book || '–' },
  { name: 'Credits less debits', numeric: true, cell: (row) => <LedgerAmount asset={row.asset} amount={row.amount} /> },
];

export function TrialBalance() {
  const query = useTrialBalance();
  return (
    <Section
      title="Trial balance"
      json={query.data}
      note="What every kind of account comes to, over all owners. The total of each asset is zero, or an entry does not balance."
    >
      <Loaded query={query}>
        {(data) => (
          <>
            <State tone={data.balanced ? 'good' : 'bad'}>{data.balanced ? 'balances' : 'does not balance'}</State>{' '}
            {data.totals.map((total) => (
              <span key={total.asset}>
                total <LedgerAmount asset={total.asset} amount={total.amount} />{' '}
              </span>
            ))}
            read <Moment at={data.read_at} withAge />
            <DataTable
              caption="Kinds of accounts"
              columns={columns}
              rows={data.list}
              id={(row) => `${row.account_kind} ${row.book} ${row.asset}`}
              empty="Nothing was ever recorded."
            />
          </>
        )}
      </Loaded>
    </Section>
  );
}

const invariantColumns: Column<Schemas['LedgerInvariant']>[] = [
  { name: 'Rule', cell: (row) => row.name },
  {
    name: 'Holds',
    cell: (row) => (
      <State tone={row.holds ? 'good' : 'bad'}>{row.holds ? 'yes' : `${count(row.drift)} rows break it`}</State>
    ),
  },
  { name: 'Checked', cell: (row) => <Moment at={row.checked_at} withAge /> },
];

export function Invariants() {
  const query = useQuery({
    queryKey: ['admin', 'ledger-invariants'],
    queryFn: () => answer(api.GET('/api/v1/admin/ledger/invariants')),
    refetchInterval: 60_000,
  });
  return (
    <Section
      title="What the ledger checks of itself"
      json={query.data}
      note="Each check looks at the open holds, at some of the wallets, and at what was recorded lately."
    >
      <Loaded query={query}>
        {(data) => (
          <DataTable
            caption="Rules of the ledger"
            columns={invariantColumns}
            rows={data.list}
            id={(row) => row.name}
            empty="The ledger was not compared with itself since it started. The first comparison comes by itself."
          />
        )}
      </Loaded>
    </Section>
  );
}
