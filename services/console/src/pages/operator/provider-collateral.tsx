// What stands behind a provider, as settlement has it.

import { Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { usd } from '../../format/amounts';
import { units } from '../../format/money';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import { useChainName } from './chain-names';

type Whole = Schemas['ProviderCollateral'];
type OnChain = Schemas['ChainCollateral'];

export function Collateral({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['admin', 'provider', id, 'collateral'],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/providers/{provider_id}/collateral', { params: { path: { provider_id: id } } })),
  });
  return (
    <Section
      title="Collateral"
      json={query.data}
      note="Free counts toward the minimum. Escrow is set aside by penalties that are open. Leaving is on its way back."
    >
      <Loaded query={query}>
        {({ collateral }) =>
          collateral === null ? <Text>Settlement knows of none.</Text> : <Known collateral={collateral} />
        }
      </Loaded>
    </Section>
  );
}

function Known({ collateral }: { collateral: Whole }) {
  const chainName = useChainName();
  return (
    <Stack>
      <Facts
        facts={[
          [
            'Confirmed',
            <State key="confirmed" tone={collateral.confirmed ? 'good' : 'warning'}>
              {collateral.confirmed ? 'yes' : 'no'}
            </State>,
          ],
          ['Source', collateral.source || 'never any'],
          ['Suspends the provider', collateral.causes.join(', ') || 'no'],
          [
            'Chain of settlement',
            collateral.settlement_chain_id === '0' ? '–' : chainName(collateral.settlement_chain_id),
          ],
          ['Chosen by the provider', collateral.chosen_chain_id === '0' ? 'no' : chainName(collateral.chosen_chain_id)],
        ]}
      />
      <DataTable
        caption="Collateral on chains"
        columns={chainColumns(chainName)}
        rows={collateral.chains}
        id={(chain) => chain.chain_id}
        empty="There is none on a chain."
      />
      {collateral.card !== null && <Card card={collateral.card} />}
      {collateral.refunds.length > 0 && <Refunds refunds={collateral.refunds} />}
    </Stack>
  );
}

function chainColumns(chainName: (id: string) => string): Column<OnChain>[] {
  const amount = (of: (chain: OnChain) => string) => (chain: OnChain) =>
    `${units(of(chain), chain.token_decimals)} ${chain.token_symbol}`;
  return [
    { name: 'Chain', cell: (chain) => chainName(chain.chain_id) },
    { name: 'Confirmed', cell: (chain) => (chain.confirmed ? 'yes' : 'no') },
    { name: 'Free', numeric: true, cell: amount((chain) => chain.free) },
    { name: 'Minimum', numeric: true, cell: amount((chain) => chain.minimum) },
    { name: 'Missing', numeric: true, cell: amount((chain) => chain.missing) },
    { name: 'Escrow', numeric: true, cell: amount((chain) => chain.escrow) },
    { name: 'Leaving', numeric: true, cell: amount((chain) => chain.leaving) },
    { name: 'Depositors', cell: (chain) => <Depositors chain={chain} /> },
  ];
}

function Depositors({ chain }: { chain: OnChain }) {
  if (chain.positions.length === 0) return <>–</>;
  return (
    <Stack gap={2}>
      {chain.positions.map((position) => (
        <span key={position.depositor}>
          <Id value={position.depositor} what="depositor" /> {units(position.free, chain.token_decimals)}
          {position.exit_at !== null && (
            <>
              , leaves <Moment at={position.exit_at} />
            </>
          )}
        </span>
      ))}
    </Stack>
  );
}

function Card({ card }: { card: Schemas['CardCollateral'] }) {
  return (
    <div>
      <Text fw={600} size="sm" mb={4}>
        By card
      </Text>
      <Facts
        facts={[
          ['Confirmed by card', card.confirmed ? 'yes' : 'no'],
          ['Free', <Money key="free" usd={usd(card.free_nano_usd)} />],
          ['Minimum', <Money key="minimum" usd={usd(card.minimum_nano_usd)} />],
          ['Missing', <Money key="missing" usd={usd(card.missing_nano_usd)} />],
          ['Escrow', <Money key="escrow" usd={usd(card.escrow_nano_usd)} />],
          ['Leaving', <Money key="leaving" usd={usd(card.leaving_nano_usd)} />],
          ['Owed by the provider', <Money key="owed" usd={usd(card.owed_nano_usd)} />],
          ['A payment was reversed', card.reversed ? 'yes' : 'no'],
        ]}
      />
    </div>
  );
}

function Refunds({ refunds }: { refunds: Schemas['CollateralRefund'][] }) {
  return (
    <DataTable
      caption="Refunds of the collateral"
      columns={[
        { name: 'Refund', cell: (refund) => <Id value={refund.refund_id} what="refund id" /> },
        { name: 'State', cell: (refund) => <State>{refund.state.replace('REFUND_STATE_', '').toLowerCase()}</State> },
        { name: 'Asked', cell: (refund) => <Moment at={refund.asked_at} /> },
        { name: 'Due', cell: (refund) => <Moment at={refund.due_at} withAge={refund.ended_at === null} /> },
        { name: 'Ended', cell: (refund) => <Moment at={refund.ended_at} /> },
      ]}
      rows={refunds}
      id={(refund) => refund.refund_id}
      empty="None."
    />
  );
}
