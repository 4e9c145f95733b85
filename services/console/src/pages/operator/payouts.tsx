// Payouts: first those that wait for an operator, then why nothing is sent, then all of them.

import { Select, Text } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';

import { answer, api } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Money, Moment, State } from '../../ui/text';
import { RoleNote } from './act';
import { useChainName } from './chain-names';
import { ProviderLink, shortId } from './links';
import { Approvals, PayoutActs } from './payout-acts';
import { PayoutDetail } from './payout-detail';
import { payoutStates, stateOf, stateTone, stateWord, waitsFor, type Payout } from './payout-words';
import { SendingHalts } from './sending-halts';

export default function Payouts() {
  const [filters, setFilters] = useFilters({ state: '', opened: '' });
  const setOpened = (opened: string) => setFilters({ opened });
  const state = stateOf(filters.state);
  const query = useInfiniteQuery({
    queryKey: ['admin', 'payouts', 'list', filters.state],
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/admin/payouts', { params: { query: { state, page: pageParam, page_size: 50 } } })),
    initialPageParam: 1,
    getNextPageParam: (last) => (last.page * last.page_size < last.total ? last.page + 1 : undefined),
    refetchInterval: 30_000,
  });
  const waiting = useWaiting();
  const payouts = query.data?.pages.flatMap((page) => page.list) ?? [];
  const open = [...payouts, ...(waiting.data?.list ?? [])].find((payout) => payout.payout_id === filters.opened);
  return (
    <Page
      title="Payouts"
      lead="A small payout goes by itself, while the day’s limit over all providers lasts. Others need one operator, and
        the largest two."
    >
      <Waiting onOpen={setOpened} />
      <SendingHalts />
      <Section
        title="All payouts"
        json={query.data?.pages}
        actions={
          <Select
            size="xs"
            label="State"
            value={filters.state}
            onChange={(value) => setFilters({ state: value ?? '' })}
            allowDeselect={false}
            data={[
              { value: '', label: 'All' },
              ...payoutStates.map((one) => ({ value: stateWord(one), label: stateWord(one) })),
            ]}
          />
        }
      >
        <Loaded query={query}>
          {() => (
            <PayoutTable
              payouts={payouts}
              onOpen={setOpened}
              more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
              loadingMore={query.isFetchingNextPage}
              empty={
                filters.state === ''
                  ? 'No provider has asked for a payout yet.'
                  : 'No payout is in this state. Choose another one.'
              }
            />
          )}
        </Loaded>
      </Section>
      <PayoutDetail payout={open} onClose={() => setOpened('')} />
    </Page>
  );
}

/** The payouts that are requested, of which some wait for an operator. */
function useWaiting() {
  return useQuery({
    queryKey: ['admin', 'payouts', 'requested'],
    queryFn: () =>
      answer(
        api.GET('/api/v1/admin/payouts', {
          params: { query: { state: 'PAYOUT_STATE_REQUESTED', page: 1, page_size: 200 } },
        }),
      ),
    refetchInterval: 30_000,
  });
}

function Waiting({ onOpen }: { onOpen: (id: string) => void }) {
  const query = useWaiting();
  const name = useChainName();
  const columns: Column<Payout>[] = [
    { name: 'Payout', cell: (payout) => shortId(payout.payout_id) },
    { name: 'Provider', cell: (payout) => <ProviderLink id={payout.provider_id} /> },
    { name: 'Gross', numeric: true, cell: (payout) => <Money usd={payout.gross_usd_str} /> },
    { name: 'Sent', numeric: true, cell: (payout) => <Money usd={payout.net_usd_str} /> },
    { name: 'To', cell: (payout) => <Id value={payout.address} what="address" /> },
    { name: 'Chain', cell: (payout) => name(payout.chain_id) },
    { name: 'Approvals', cell: (payout) => <Approvals payout={payout} /> },
    { name: 'Asked', cell: (payout) => <Moment at={payout.requested_at} withAge /> },
    { name: 'Act', cell: (payout) => <PayoutActs payout={payout} /> },
  ];
  return (
    <Section
      title="Wait for approval"
      note="Compare the address and the amount with the provider's page before you approve. The history keeps your name and your reason."
    >
      <RoleNote permission="approve" />
      <Loaded query={query}>
        {(data) => (
          <div aria-live="polite">
            {data.total > data.list.length && (
              <Text size="sm">
                {data.total} payouts are requested. Only the newest {data.list.length} are looked through here.
              </Text>
            )}
            <DataTable
              caption="Payouts that wait for approval"
              columns={columns}
              rows={data.list.filter((payout) => payout.waiting === 'approval' && !payout.ending)}
              id={(payout) => payout.payout_id}
              onOpen={(payout) => onOpen(payout.payout_id)}
              empty="No payout waits for an operator."
            />
          </div>
        )}
      </Loaded>
    </Section>
  );
}

interface PayoutTableProps {
  payouts: Payout[];
  onOpen: (id: string) => void;
  more: (() => void) | undefined;
  loadingMore: boolean;
  empty: string;
}

function PayoutTable({ payouts, onOpen, more, loadingMore, empty }: PayoutTableProps) {
  const name = useChainName();
  const columns: Column<Payout>[] = [
    { name: 'Payout', cell: (payout) => shortId(payout.payout_id) },
    { name: 'State', cell: (payout) => <State tone={stateTone(payout.state)}>{stateWord(payout.state)}</State> },
    { name: 'Provider', cell: (payout) => <ProviderLink id={payout.provider_id} /> },
    { name: 'Gross', numeric: true, cell: (payout) => <Money usd={payout.gross_usd_str} /> },
    { name: 'Sent', numeric: true, cell: (payout) => <Money usd={payout.net_usd_str} /> },
    { name: 'Chain', cell: (payout) => name(payout.chain_id) },
    { name: 'Keeps it', cell: (payout) => waitsFor(payout) || '–' },
    { name: 'Asked', cell: (payout) => <Moment at={payout.requested_at} /> },
  ];
  return (
    <DataTable
      caption="Payouts, the newest first"
      columns={columns}
      rows={payouts}
      id={(payout) => payout.payout_id}
      onOpen={(payout) => onOpen(payout.payout_id)}
      empty={empty}
      more={more}
      loadingMore={loadingMore}
    />
  );
}
