// The trial balance: what every kind of account comes to, and the totals, which are zero.

import { Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { units } from '../../format/money';
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

/** An amount of the ledger: dollars, or the smallest units of a token. The ledger counts the coins of chains in units of 10⁻⁹. */
export function LedgerAmount({ asset, amount }: { asset: string; amount: string }) {
  if (asset === 'usd') return <Money usd={amount} />;
  return (
    <>
      {units(amount, asset.endsWith(':usdc') ? 6 : 9)} {asset}
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
            <Group gap="md" mb="sm" fz="sm">
              <State tone={data.balanced ? 'good' : 'bad'}>{data.balanced ? 'balances' : 'does not balance'}</State>
              {data.totals.map((total) => (
                <span key={total.asset}>
                  Total <LedgerAmount asset={total.asset} amount={total.amount} />
                </span>
              ))}
              <span>
                Read <Moment at={data.read_at} withAge />
              </span>
            </Group>
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
    name: 'Broken',
    cell: (row) => (
      <State tone={row.holds ? 'good' : 'bad'}>{row.holds ? 'nothing found' : `${count(row.drift)} rows found`}</State>
    ),
  },
  { name: 'A comparison looks at', cell: (row) => row.scope },
  { name: 'Last compared', cell: (row) => <Moment at={row.checked_at} withAge /> },
];

type Passes = Pick<Schemas['ListLedgerInvariantsResponse'], 'pass' | 'last_complete'>;

/** Which comparisons the rules below rest on: a rule is not proven before a pass has reached the last wallet. */
function PassesSoFar({ pass, last_complete: complete }: Passes) {
  if (pass === null) return null;
  return (
    <Text size="sm" mb="sm" component="div">
      {complete === null ? (
        <State tone="warning">
          No pass is complete yet: some wallets were not compared since this replica started.
        </State>
      ) : (
        <>
          Pass {count(complete.number)} was complete at <Moment at={complete.compared_at} withAge />.
        </>
      )}{' '}
      {!pass.complete && (
        <>
          Pass {count(pass.number)}, begun at <Moment at={pass.began_at} withAge />, is under way:{' '}
          {count(pass.comparisons)} comparisons, the last at <Moment at={pass.compared_at} />.
        </>
      )}
    </Text>
  );
}

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
      note="Each comparison looks at the next wallets, and at what was recorded lately. A pass is the comparisons from the first wallet to the last, by the replica that answers. A rule is shown as broken until a complete pass has found nothing."
    >
      <Loaded query={query}>
        {(data) => (
          <>
            <PassesSoFar pass={data.pass} last_complete={data.last_complete} />
            <DataTable
              caption="Rules of the ledger"
              columns={invariantColumns}
              rows={data.list}
              id={(row) => row.name}
              empty="The ledger has not been checked against itself since it started. The first comparison comes by itself."
            />
          </>
        )}
      </Loaded>
    </Section>
  );
}
