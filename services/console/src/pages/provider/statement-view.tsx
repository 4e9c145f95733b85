import { Button, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { saveJson } from '../../ui/download';
import { Loaded, Section } from '../../ui/page';
import { JsonView } from '../../ui/json';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Money, State } from '../../ui/text';
import { useChainName } from './chains';
import { EarningsCsv } from './earnings-csv';
import { readStatement, type Balance, type Read, type Sum } from './statement';

type Signed = Schemas['ProviderStatement'];

export function Statement({ day }: { day: string }) {
  const query = useQuery({
    queryKey: ['provider', 'statement', day],
    queryFn: () => answer(api.GET('/api/v1/provider/statements/{day}', { params: { path: { day } } })),
  });
  return (
    <Loaded query={query}>
      {(signed) => {
        const read = readStatement(signed.statement);
        return (
          <Stack>
            <Group gap="xs">
              <Button size="xs" variant="default" onClick={() => saveJson(signed, `statement-${day}.json`)}>
                Download the statement
              </Button>
              <EarningsCsv from={day} to={day} />
              <JsonView value={signed} title={`statement of ${day}`} />
            </Group>
            <Share signed={signed} read={read} />
            <Section title="Opening and closing" note="Where your earnings stood when the day began and when it ended.">
              <DataTable
                caption="Opening and closing"
                columns={balanceColumns}
                rows={read.balances}
                id={(balance) => balance.name}
                empty="The statement has no balances."
              />
            </Section>
            <Section title="Sums of the day" note="By what earnings changed. The CSV has each line.">
              <DataTable
                caption="Sums of the day"
                columns={sumColumns}
                rows={read.sums}
                id={(sum) => `${sum.kind} ${sum.entry} ${sum.month}`}
                empty="Nothing moved on this day."
              />
            </Section>
            <Proof signed={signed} read={read} />
          </Stack>
        );
      }}
    </Loaded>
  );
}

const balanceColumns: Column<Balance>[] = [
  { name: 'Where', cell: (balance) => balance.name },
  { name: 'Opening', cell: (balance) => <Money usd={balance.opening} />, numeric: true },
  { name: 'Closing', cell: (balance) => <Money usd={balance.closing} />, numeric: true },
];

const sumKinds: Record<string, string> = {
  payg: 'requests paid with credit',
  plan: 'requests of plans',
  orphan: 'work that no consumer paid for',
  refund: 'refunds to consumers',
  reversal: 'reversals',
  entry: 'other entries',
  held: 'set aside for a person to look at',
  released: 'released',
  held_refunded: 'refunded while it was held',
  forfeited: 'taken back by an operator',
  held_reversed: 'reversed while it was held',
};

const sumColumns: Column<Sum>[] = [
  { name: 'By', cell: (sum) => sumKinds[sum.kind] ?? sum.kind.replaceAll('_', ' ') },
  { name: 'Entry', cell: (sum) => sum.entry.replaceAll('_', ' ') },
  { name: 'Month', cell: (sum) => (sum.month === '' ? '–' : sum.month) },
  { name: 'Lines', cell: (sum) => sum.lines, numeric: true },
  { name: 'Amount', cell: (sum) => <Money usd={sum.usd} />, numeric: true },
];

function Share({ signed, read }: { signed: Signed; read: Read }) {
  const name = useChainName();
  return (
    <Section title="Your share">
      <Facts
        facts={[
          ['Share of the day', <Money usd={read.amount} />],
          ['Became payable', signed.posted_usd_str === null ? 'not yet' : <Money usd={signed.posted_usd_str} />],
          ['Earned up to the day', <Money usd={read.earned} />],
          ['Given on earlier days', <Money usd={read.given} />],
          ['Carried to later days', <Money usd={read.carried} />],
          ['Chain', name(Number(read.chain))],
          ['Beneficiary', <Id value={read.beneficiary} what="beneficiary" />],
          ['Ledger entry', <Id value={signed.entry_id} what="ledger entry" />],
        ]}
      />
      <Text size="sm" c="var(--muted)" mt="xs">
        The share is what was earned, less what was given, less what is carried.
      </Text>
    </Section>
  );
}

function Proof({ signed, read }: { signed: Signed; read: Read }) {
  return (
    <Section title="Signature and proof">
      <Facts
        facts={[
          [
            'Signature',
            signed.signature === '' ? (
              <State tone="busy">not signed yet</State>
            ) : (
              <Id value={signed.signature} what="signature" />
            ),
          ],
          ['Signed by', <Id value={signed.signer} what="signer" />],
          ['Summary (keccak256)', <Id value={signed.summary_keccak256} what="summary" />],
          ['Leaf', <Id value={read.leaf} what="leaf" />],
          ['Root of the batch', <Id value={read.root} what="root" />],
          ['Nodes of the proof', String(read.proof)],
          ['SHA-256 of the CSV', <Id value={read.csv} what="digest of the CSV" />],
          ['Seal of the ledger’s day', <Id value={read.seal} what="seal" />],
        ]}
      />
    </Section>
  );
}
