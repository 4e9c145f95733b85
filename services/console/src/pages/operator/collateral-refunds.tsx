// Refunds of collateral: first what the bank must pay, then all of them.

import { Select } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';

import { answer, api } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, State } from '../../ui/text';
import { ProviderLink, shortId } from './links';
import { BankRefunds, RefundDetail } from './refund-detail';
import { cents, refundStates, refundTone, stateOf, stateWord, waitsForBank, type Refund } from './refund-words';

export default function CollateralRefunds() {
  const [filters, setFilters] = useFilters({ state: '', opened: '' });
  const setOpened = (opened: string) => setFilters({ opened });
  const state = stateOf(filters.state);
  const query = useInfiniteQuery({
    queryKey: ['admin', 'collateral-refunds', 'list', filters.state],
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/admin/collateral/refunds', { params: { query: { state, page: pageParam, page_size: 50 } } }),
      ),
    initialPageParam: 1,
    getNextPageParam: (last) => (last.page * last.page_size < last.total ? last.page + 1 : undefined),
    refetchInterval: 60_000,
  });
  const refunds = query.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Page
      title="Collateral refunds"
      lead="A provider gets all of its collateral back 7 days after it asked, unless a payout, a penalty or an appeal is open."
    >
      <BankRefunds onOpen={setOpened} />
      <Section
        title="All refunds"
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
              ...refundStates.map((one) => ({ value: stateWord(one), label: stateWord(one) })),
            ]}
          />
        }
      >
        <Loaded query={query}>
          {() => (
            <DataTable
              caption="Refunds of collateral, the newest first"
              columns={columns}
              rows={refunds}
              id={(refund) => refund.refund_id}
              onOpen={(refund) => setOpened(refund.refund_id)}
              empty={
                filters.state === ''
                  ? 'No provider has asked for its collateral yet.'
                  : 'No refund is in this state. Choose another one.'
              }
              more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
              loadingMore={query.isFetchingNextPage}
            />
          )}
        </Loaded>
      </Section>
      <RefundDetail id={filters.opened} listed={refunds} onClose={() => setOpened('')} />
    </Page>
  );
}

const columns: Column<Refund>[] = [
  { name: 'Refund', cell: (refund) => shortId(refund.refund_id) },
  {
    name: 'State',
    cell: (refund) => (
      <>
        <State tone={refundTone(refund.state)}>{stateWord(refund.state)}</State>
        {waitsForBank(refund).length > 0 && ' waits for the bank'}
      </>
    ),
  },
  { name: 'Provider', cell: (refund) => <ProviderLink id={refund.provider_id} /> },
  { name: 'By card', numeric: true, cell: (refund) => cents(refund.parts) },
  { name: 'On chains', numeric: true, cell: (refund) => positions(refund) },
  { name: 'Asked', cell: (refund) => <Moment at={refund.asked_at} /> },
  { name: 'Due', cell: (refund) => <Moment at={refund.due_at} withAge={refund.state === 'REFUND_STATE_ASKED'} /> },
  { name: 'Ended', cell: (refund) => <Moment at={refund.ended_at} /> },
];

function positions(refund: Refund): string {
  const n = refund.parts.filter((part) => part.chain_id !== '0').length;
  return n === 0 ? '–' : n === 1 ? '1 position' : `${n} positions`;
}
