import { Stack, Text } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { isZero } from '../../format/money';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money, State, type Tone } from '../../ui/text';
import { Gauge } from './gauge';
import { balanceKey, ledgerKey, scope } from './queries';

type Deposit = Schemas['ConsumerDeposit'];

const pageSize = 20;
const pollMs = 5_000;

/** What has arrived for the account, with its confirmations as they come. */
export function Deposits() {
  const queries = useQueryClient();
  const deposits = useInfiniteQuery({
    queryKey: [scope, 'deposits'],
    initialPageParam: 1,
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/consumer/deposits', { params: { query: { page: pageParam, page_size: pageSize } } })),
    getNextPageParam: (page) => (page.page * page.page_size < page.total ? page.page + 1 : undefined),
    placeholderData: keepPreviousData,
    refetchInterval: pollMs, // a transfer that was just sent appears without a reload
  });
  const list = deposits.data?.pages.flatMap((page) => page.list) ?? [];
  const open = deposits.data?.pages[0]?.open ?? [];
  const credited = list.filter((deposit) => deposit.state === 'credited').length;
  useEffect(() => {
    for (const queryKey of [balanceKey, ledgerKey]) void queries.invalidateQueries({ queryKey });
  }, [credited, queries]);
  return (
    <Section
      title="Deposits"
      json={deposits.data?.pages}
      note="Each transfer to your address, from its first sight on. This page asks for news every 5 seconds."
    >
      {open.length > 0 && (
        <Text size="sm" mb="sm" component="div">
          Final, and waiting to be credited:{' '}
          {open.map((sum) => (
            <span key={`${sum.chain_id} ${sum.asset}`}>
              {sum.amount} {sum.asset}
              {isZero(sum.usd_str) ? (
                ''
              ) : (
                <>
                  {' '}
                  (<Money usd={sum.usd_str} />)
                </>
              )}{' '}
            </span>
          ))}
        </Text>
      )}
      <Loaded query={deposits}>
        {() => (
          <div aria-live="polite">
            <DataTable
              caption="Deposits"
              columns={columns}
              rows={list}
              id={(deposit) => `${deposit.chain_id} ${deposit.transaction_hash} ${deposit.place}`}
              empty="Nothing has arrived yet. Send a supported token to the address above."
              more={deposits.hasNextPage ? () => void deposits.fetchNextPage() : undefined}
              loadingMore={deposits.isFetchingNextPage}
            />
          </div>
        )}
      </Loaded>
    </Section>
  );
}

const tones: Record<string, Tone> = {
  seen: 'busy',
  final: 'busy',
  credited: 'good',
  unmatched: 'warning',
  denied: 'bad',
  returned: 'neutral',
  dropped: 'warning',
};

const columns: Column<Deposit>[] = [
  { name: 'Arrived', cell: (deposit) => <Moment at={deposit.at} /> },
  {
    name: 'Token',
    cell: (deposit) => <span className="breakable">{`${deposit.amount} ${deposit.asset} on ${deposit.chain}`}</span>,
  },
  { name: 'State', cell: (deposit) => <DepositState deposit={deposit} /> },
  { name: 'Worth', numeric: true, cell: (deposit) => <Worth deposit={deposit} /> },
  {
    name: 'Added',
    numeric: true,
    cell: (deposit) => (isZero(deposit.bonus_usd_str) ? '–' : <Money usd={deposit.bonus_usd_str} />),
  },
  { name: 'Transaction', cell: (deposit) => <Id value={deposit.transaction_hash} what="transaction" /> },
];

function DepositState({ deposit }: { deposit: Deposit }) {
  return (
    <Stack gap={4}>
      <div>
        <State tone={tones[deposit.state] ?? 'neutral'}>{deposit.state}</State>
      </div>
      {deposit.state === 'seen' && (
        <Gauge
          label="Confirmations"
          warns={false}
          percent={(deposit.confirmations / Math.max(1, deposit.confirmations_needed)) * 100}
        >
          {deposit.confirmations} of {deposit.confirmations_needed}
        </Gauge>
      )}
      <Text size="xs" c="var(--muted)">
        {deposit.note}
      </Text>
      {deposit.return_transaction_hash !== '' && (
        <Id value={deposit.return_transaction_hash} what="transaction of the return" />
      )}
    </Stack>
  );
}

function Worth({ deposit }: { deposit: Deposit }) {
  if (isZero(deposit.usd_str)) return <>–</>;
  return (
    <>
      <Money usd={deposit.usd_str} />
      {deposit.rate_usd_str !== '' && (
        <Text size="xs" c="var(--muted)">
          at <Money usd={deposit.rate_usd_str} /> of {deposit.rate_source}
        </Text>
      )}
    </>
  );
}
