import { Anchor, Button, Group, NativeSelect } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { isZero } from '../../format/money';
import { CsvButton } from '../../ui/download';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money } from '../../ui/text';
import { Burn } from './burn';
import { Documents } from './documents';
import { Figures } from './figures';
import { Period } from './period';
import { given, ledgerKey, useBalance } from './queries';

type Line = Schemas['LedgerLine'];

export default function Billing() {
  return (
    <Page
      title="Billing"
      lead={
        <>
          Where your credit stands, every line that moved it, and your invoices and receipts. All amounts are US
          dollars.
        </>
      }
      actions={
        <Button component={Link} to="/credits" size="xs">
          Add credit
        </Button>
      }
    >
      <Standing />
      <Ledger />
      <Documents />
    </Page>
  );
}

function Standing() {
  const balance = useBalance();
  return (
    <Loaded query={balance}>
      {(data) => (
        <Figures>
          <Figure
            label="Credit"
            note="Available and held together: the balance of the newest line, some seconds later."
          >
            <Money usd={data.credit_usd_str} rounded />
          </Figure>
          <Figure
            label="Held"
            note="Set aside for requests under way. What a request does not use comes back when it settles."
          >
            <Money usd={data.held_usd_str} rounded />
          </Figure>
          <Figure label="Available" note="What further requests may use.">
            <Money usd={data.available_usd_str} rounded />
          </Figure>
          <Burn balance={data} />
          {!isZero(data.debt_usd_str) && (
            <Figure label="Owed" note="For card payments that were taken back. Credit that you add pays this first.">
              <Money usd={data.debt_usd_str} rounded />
            </Figure>
          )}
        </Figures>
      )}
    </Loaded>
  );
}

const none = { from: '', to: '', kind: '' };

function Ledger() {
  const [filters, setFilters] = useFilters(none);
  const query = { from: filters.from, to: filters.to, kind: filters.kind };
  const ledger = useInfiniteQuery({
    queryKey: [...ledgerKey, query],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/consumer/ledger', { params: { query: { ...given(query), cursor: pageParam || undefined } } }),
      ),
    getNextPageParam: (page) => page.next_cursor || undefined,
  });
  const lines = ledger.data?.pages.flatMap((page) => page.lines) ?? [];
  return (
    <Section
      title="Ledger"
      json={lines}
      note={<>Everything that moved your credit, the newest first. The balance is your credit after the line.</>}
    >
      <Group justify="space-between" align="flex-end" mb="sm">
        <Group gap="xs" align="flex-end">
          <Period from={filters.from} to={filters.to} onChange={setFilters} />
          <NativeSelect
            size="xs"
            label="Kind"
            value={filters.kind}
            onChange={(event) => setFilters({ kind: event.currentTarget.value })}
            data={kinds}
          />
        </Group>
        <CsvButton
          name="ledger.csv"
          load={() =>
            answer(api.GET('/api/v1/consumer/ledger.csv', { params: { query: given(query) }, parseAs: 'stream' }))
          }
        />
      </Group>
      <Loaded query={ledger}>
        {() => (
          <DataTable
            caption="Lines of the ledger"
            columns={columns}
            rows={lines}
            id={(line) => `${line.kind} ${line.entry_id}`}
            empty={
              <>
                Nothing moved the credit in these days.{' '}
                <Anchor component={Link} to="/credits" inherit>
                  Add credit
                </Anchor>{' '}
                or choose other days.
              </>
            }
            more={ledger.hasNextPage ? () => void ledger.fetchNextPage() : undefined}
            loadingMore={ledger.isFetchingNextPage}
          />
        )}
      </Loaded>
    </Section>
  );
}

const columns: Column<Line>[] = [
  { name: 'Recorded', cell: (line) => <Moment at={line.at} /> },
  { name: 'What', cell: (line) => <span className="breakable">{line.text}</span> },
  { name: 'About', cell: (line) => <About line={line} /> },
  { name: 'Entry', wideOnly: true, cell: (line) => <Id value={line.entry_id} what="entry id" /> },
  { name: 'Amount', numeric: true, cell: (line) => <Money usd={line.amount_usd_str} /> },
  { name: 'Balance', numeric: true, cell: (line) => <Money usd={line.balance_usd_str} /> },
];

function About({ line }: { line: Line }) {
  const to = pageOf(line);
  if (to === undefined) return <span>{line.subject}</span>;
  return (
    <Anchor component={Link} to={to} inherit aria-label={`${line.subject} ${line.subject_id}`}>
      {line.subject}
    </Anchor>
  );
}

/** The page that tells more of what a line is about. */
function pageOf(line: Line): string | undefined {
  switch (line.subject) {
    case 'request':
      return `/requests/${encodeURIComponent(line.subject_id)}`;
    case 'checkout':
      return `/credits?checkout=${encodeURIComponent(line.subject_id)}`;
    case 'deposit':
      return '/credits?by=crypto';
    default:
      return undefined;
  }
}

/** The kinds of lines, as the API names them. */
const kinds = [
  { value: '', label: 'All kinds' },
  { value: 'usage', label: 'Usage' },
  { value: 'card_topup', label: 'Card top-up' },
  { value: 'deposit_usdc', label: 'USDC deposit' },
  { value: 'deposit_native', label: 'Coin deposit' },
  { value: 'deposit_matched', label: 'Deposit matched by an operator' },
  { value: 'earnings_credit', label: 'Earnings turned into credit' },
  { value: 'goodwill', label: 'Credit given' },
  { value: 'request_refund', label: 'Refund of a request' },
  { value: 'broken_answer', label: 'Refund of an answer that broke off' },
  { value: 'card_reversed', label: 'Card payment taken back' },
  { value: 'card_debt_paid', label: 'Debt repaid' },
  { value: 'card_dispute_won', label: 'Dispute decided for you' },
  { value: 'deposit_reversed', label: 'Deposit taken back by its chain' },
  { value: 'slash_forfeit', label: 'Compensation' },
  { value: 'reversal', label: 'Correction' },
];
