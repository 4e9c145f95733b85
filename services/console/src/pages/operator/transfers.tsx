// What arrived at deposit addresses. What belongs to nobody is matched to an account or sent back.

import { Select } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { usd } from '../../format/amounts';
import { useFilters } from '../../ui/filters';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Money, Moment, State, type Tone } from '../../ui/text';
import { RoleNote } from './act';
import { useChainName } from './chain-names';
import { Detail } from './detail';
import { AccountLink, shortId } from './links';
import { TransferActs } from './transfer-acts';

type Transfer = Schemas['Deposit'];

const states = ['seen', 'final', 'credited', 'unmatched', 'denied', 'returned', 'dropped'];

const waits: Record<string, string> = {
  minimum: 'the open sum of its address is below $1',
  quote: 'there is no good price of the coin',
  balance: 'the address does not hold what the logs say',
  screening: 'the screening of the sender does not answer',
};

export function Transfers() {
  const [filters, setFilters] = useFilters({ transfers: 'unmatched', opened: '' });
  const query = useInfiniteQuery({
    queryKey: ['admin', 'transfers', filters.transfers],
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/admin/transfers', {
          params: {
            query: { state: filters.transfers === 'all' ? '' : filters.transfers, page: pageParam, page_size: 50 },
          },
        }),
      ),
    initialPageParam: 1,
    getNextPageParam: (last) => (last.page * last.page_size < last.total ? last.page + 1 : undefined),
    refetchInterval: 60_000,
  });
  const rows = query.data?.pages.flatMap((page) => page.list) ?? [];
  const opened = rows.find((row) => idOf(row) === filters.opened);
  return (
    <Section
      title="Transfers"
      json={query.data?.pages}
      note="Unmatched: the token is credited to nobody here. Denied: screening denies the sender. Both wait until an operator gives them
        to an account, or notes that the treasury sent them back."
      actions={
        <Select
          size="xs"
          label="State"
          value={filters.transfers}
          onChange={(value) => setFilters({ transfers: value ?? 'unmatched' })}
          allowDeselect={false}
          data={[{ value: 'all', label: 'All' }, ...states]}
        />
      }
    >
      <RoleNote permission="pay" />
      <Loaded query={query}>
        {() => (
          <TransferTable
            rows={rows}
            onOpen={(transfer) => setFilters({ opened: idOf(transfer) })}
            empty={filters.transfers === 'all' ? 'Nothing has arrived yet.' : `No transfer is ${filters.transfers}.`}
            more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
            loadingMore={query.isFetchingNextPage}
          />
        )}
      </Loaded>
      <Detail title="Transfer" open={opened !== undefined} onClose={() => setFilters({ opened: '' })}>
        {opened !== undefined && <TransferFacts transfer={opened} />}
      </Detail>
    </Section>
  );
}

/** A transfer is known by its chain, its transaction and its place there. */
function idOf(transfer: Transfer): string {
  return `${transfer.chain_id} ${transfer.transaction_hash} ${transfer.place}`;
}

interface TransferTableProps {
  rows: Transfer[];
  onOpen: (transfer: Transfer) => void;
  empty: string;
  more: (() => void) | undefined;
  loadingMore: boolean;
}

function TransferTable({ rows, onOpen, empty, more, loadingMore }: TransferTableProps) {
  const name = useChainName();
  const columns: Column<Transfer>[] = [
    { name: 'Transfer', cell: (row) => shortId(row.transaction_hash) },
    { name: 'State', cell: (row) => <State tone={toneOf(row.state)}>{row.state}</State> },
    { name: 'Chain', cell: (row) => name(row.chain_id) },
    { name: 'Arrived', numeric: true, cell: (row) => `${row.tokens} ${row.symbol}` },
    { name: 'Worth', numeric: true, cell: (row) => <Worth transfer={row} /> },
    { name: 'Account', cell: (row) => <AccountLink id={row.account_id} /> },
    { name: 'At', cell: (row) => <Moment at={row.at} /> },
    { name: 'Act', cell: (row) => <TransferActs transfer={row} /> },
  ];
  return (
    <DataTable
      caption="Transfers to deposit addresses, the newest first"
      columns={columns}
      rows={rows}
      id={idOf}
      onOpen={onOpen}
      empty={empty}
      more={more}
      loadingMore={loadingMore}
    />
  );
}

function Worth({ transfer }: { transfer: Transfer }) {
  if (transfer.value_nano_usd === '0') return <>–</>;
  return <Money usd={usd(transfer.value_nano_usd)} />;
}

function TransferFacts({ transfer }: { transfer: Transfer }) {
  const name = useChainName();
  const needed = transfer.confirmations_needed === '0' ? 'not known' : transfer.confirmations_needed;
  return (
    <Section title="Where it stands" json={transfer} actions={<TransferActs transfer={transfer} />}>
      <Facts
        facts={[
          [
            'State',
            <State key="state" tone={toneOf(transfer.state)}>
              {transfer.state}
            </State>,
          ],
          ['Keeps it', transfer.waits === '' ? '–' : (waits[transfer.waits] ?? transfer.waits)],
          ['Chain', name(transfer.chain_id)],
          ['Transaction', <Id key="tx" value={transfer.transaction_hash} what="transaction" full />],
          ['Place in its receipt', transfer.place],
          ['Block', transfer.block],
          ['Confirmations', `${transfer.confirmations} of ${needed}`],
          ['Sender', <Id key="sender" value={transfer.sender} what="address" full />],
          ['Account', <AccountLink key="account" id={transfer.account_id} />],
          ['Arrived', `${transfer.tokens} ${transfer.symbol}`],
          [
            'Contract of a token that is credited to nobody',
            <Id key="other" value={transfer.other_contract} what="address" full />,
          ],
          ['Worth, before any bonus', <Worth key="worth" transfer={transfer} />],
          ['Bonus', transfer.bonus_nano_usd === '0' ? '–' : <Money key="bonus" usd={usd(transfer.bonus_nano_usd)} />],
          [
            'Price of a coin',
            transfer.rate_nano_usd === '0' ? '–' : <Money key="rate" usd={usd(transfer.rate_nano_usd)} />,
          ],
          ['Price from', transfer.rate_source === '' ? '–' : transfer.rate_source],
          ['Price at', <Moment key="rate-at" at={transfer.rate_at} />],
          ['Entry in the ledger', <Id key="entry" value={transfer.entry_id} what="entry id" full />],
          ['Sent back by', <Id key="return" value={transfer.return_transaction_hash} what="transaction" full />],
        ]}
      />
    </Section>
  );
}

function toneOf(state: string): Tone {
  if (state === 'credited') return 'good';
  if (state === 'unmatched' || state === 'denied') return 'warning';
  return state === 'seen' || state === 'final' ? 'busy' : 'neutral';
}
