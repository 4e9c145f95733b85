import { Anchor, SimpleGrid, Stack, Text } from '@mantine/core';

import { isZero } from '../../format/money';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import { useChainName, useContracts, type Chain } from './chains';
import { ChooseChain, Refunds } from './collateral-acts';
import { Deposit } from './deposit';
import { useCollateral, type Collateral } from './queries';

export default function CollateralPage() {
  const query = useCollateral();
  return (
    <Page
      title="Collateral"
      lead={
        <>
          What stands behind your answers. It counts once one chain alone, or your card, has the minimum. A penalty
          takes a share of it; all the rest is yours and comes back when you ask.
        </>
      }
    >
      <Loaded query={query}>
        {(collateral) => (
          <>
            <Lead of={collateral} />
            <Deposit of={collateral} />
            <Chains of={collateral} />
            <Card of={collateral} />
            <ChooseChain of={collateral} />
            <Refunds of={collateral} />
          </>
        )}
      </Loaded>
      <Where />
    </Page>
  );
}

const sources: Record<string, string> = {
  contract: 'By a contract on a chain',
  card: 'By card',
  development: 'Of development: nobody holds it',
  '': 'Nothing is deposited',
};

function Lead({ of: collateral }: { of: Collateral }) {
  const name = useChainName();
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }} aria-live="polite">
      <Figure label="Collateral" note={sources[collateral.source] ?? collateral.source}>
        {collateral.has_collateral ? <State tone="good">confirmed</State> : <State tone="warning">not confirmed</State>}
      </Figure>
      <Figure
        label="You are paid on"
        note={
          collateral.chosen_chain_id !== 0
            ? 'As you chose'
            : collateral.source === ''
              ? 'The default, until you deposit'
              : 'The chain of your largest collateral'
        }
      >
        {name(collateral.settlement_chain_id)}
      </Figure>
    </SimpleGrid>
  );
}

type OnChain = Collateral['chains'][number];
type Position = OnChain['positions'][number] & { chain: OnChain };

function Chains({ of: collateral }: { of: Collateral }) {
  const name = useChainName();
  const columns: Column<OnChain>[] = [
    { name: 'Chain', cell: (chain) => name(chain.chain_id) },
    {
      name: 'State',
      cell: (chain) =>
        chain.confirmed ? <State tone="good">confirmed</State> : <State tone="warning">not confirmed</State>,
    },
    { name: 'Free', cell: (chain) => tokens(chain.free, chain), numeric: true },
    { name: 'Set aside by penalties', cell: (chain) => tokens(chain.escrow, chain), numeric: true },
    { name: 'On its way back', cell: (chain) => tokens(chain.leaving, chain), numeric: true },
    { name: 'Minimum', cell: (chain) => tokens(chain.minimum, chain), numeric: true },
    { name: 'Missing', cell: (chain) => tokens(chain.missing, chain), numeric: true },
  ];
  const positions: Position[] = collateral.chains.flatMap((chain) =>
    chain.positions.map((position) => ({ ...position, chain })),
  );
  const positionColumns: Column<Position>[] = [
    { name: 'Depositor', cell: (one) => <Id value={one.depositor} what="depositor" /> },
    { name: 'Chain', cell: (one) => name(one.chain.chain_id) },
    { name: 'Free', cell: (one) => tokens(one.free, one.chain), numeric: true },
    { name: 'Set aside', cell: (one) => tokens(one.escrow, one.chain), numeric: true },
    { name: 'Goes back', cell: (one) => <Moment at={one.refund_at ?? one.exit_at} withAge /> },
  ];
  return (
    <Section
      title="On chains"
      json={collateral}
      note="Amounts are in whole tokens. A deposit appears once its block is final."
    >
      <Stack>
        <DataTable
          caption="Collateral by chain"
          columns={columns}
          rows={collateral.chains}
          id={(chain) => String(chain.chain_id)}
          empty="No chain takes collateral here now."
        />
        {positions.length > 0 && (
          <DataTable
            caption="Depositors"
            columns={positionColumns}
            rows={positions}
            id={(one) => `${one.chain.chain_id} ${one.depositor}`}
            empty=""
          />
        )}
      </Stack>
    </Section>
  );
}

function tokens(amount: string, chain: OnChain): string {
  return `${amount} ${chain.token_symbol}`;
}

function Card({ of: collateral }: { of: Collateral }) {
  const { card } = collateral;
  if (!card.available && isZero(card.free_usd_str) && isZero(card.escrow_usd_str) && isZero(card.owed_usd_str))
    return null;
  return (
    <Section title="By card">
      <Facts
        facts={[
          [
            'State',
            card.confirmed ? <State tone="good">confirmed</State> : <State tone="warning">not confirmed</State>,
          ],
          ['Free', <Money usd={card.free_usd_str} />],
          ['Set aside by penalties', <Money usd={card.escrow_usd_str} />],
          ['On its way back', <Money usd={card.leaving_usd_str} />],
          ['Minimum', <Money usd={card.minimum_usd_str} />],
          ['Missing', <Money usd={card.missing_usd_str} />],
          ...(isZero(card.owed_usd_str)
            ? []
            : [['You owe', <Money usd={card.owed_usd_str} />] satisfies [string, React.ReactNode]]),
          ...(card.reversed
            ? [['Reversed', 'A payment went back to the card’s owner.'] satisfies [string, React.ReactNode]]
            : []),
        ]}
      />
    </Section>
  );
}

const whereColumns: Column<Chain>[] = [
  { name: 'Chain', cell: (chain) => `${chain.chain_name} (${chain.chain_id})` },
  { name: 'Minimum', cell: (chain) => `${chain.min_collateral} ${chain.token_symbol}`, numeric: true },
  { name: 'Contract', cell: (chain) => <Id value={chain.contract_address} what="contract" /> },
  {
    name: 'Token',
    cell: (chain) =>
      chain.token_address === '' ? 'the chain’s coin' : <Id value={chain.token_address} what="token" />,
  },
  {
    name: 'Explorer',
    cell: (chain) =>
      /^https?:\/\//.test(chain.explorer_url) ? (
        <Anchor href={chain.explorer_url} target="_blank" rel="noreferrer" inherit>
          Open
        </Anchor>
      ) : (
        '–'
      ),
  },
];

function Where() {
  const query = useContracts();
  return (
    <Section
      title="Where collateral is taken"
      json={query.data}
      note={
        <>
          One contract a chain. It cannot be replaced or paused, and money leaves it to its depositor or, by a penalty,
          to the treasury.
        </>
      }
    >
      <Loaded query={query}>
        {(where) => (
          <>
            <DataTable
              caption="Where collateral is taken"
              columns={whereColumns}
              rows={where.chains}
              id={(chain) => String(chain.chain_id)}
              empty="No chain takes collateral here now."
            />
            <Text size="sm" mt="xs">
              {where.card.available
                ? `By card, too: at least $${where.card.min_collateral}. You are paid on chain ${where.card.settlement_chain_id} then.`
                : 'No card takes it here now.'}
            </Text>
          </>
        )}
      </Loaded>
    </Section>
  );
}
