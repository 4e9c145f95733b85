import { SimpleGrid, Text } from '@mantine/core';

import { answer, api } from '../../api/client';
import { dollars, isZero } from '../../format/money';
import { Confirm } from '../../ui/confirm';
import { JsonView } from '../../ui/json';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Money, Moment, State, type Tone } from '../../ui/text';
import { Transaction, useChainName } from './chains';
import { Convert } from './convert';
import { PayoutForm, isOpen } from './payout-form';
import { useAccount, useChanged, useEarnings, useOnce, usePayouts, type Payout } from './queries';

export default function Payouts() {
  const account = useAccount();
  const earnings = useEarnings();
  const query = usePayouts();
  const payouts = query.data?.pages.flatMap((page) => page.list ?? []) ?? [];
  const terms = query.data?.pages[0]?.terms ?? null;
  return (
    <Page
      title="Payouts"
      lead={<>Take what is payable: to your wallet on the chain of your collateral, or as credit of your account.</>}
    >
      <Loaded query={earnings}>
        {(e) => (
          <>
            <SimpleGrid cols={{ base: 1, xs: 2, lg: 3 }} aria-live="polite">
              <Figure label="Payable now" note="Before the fee of a payout">
                <Money usd={e.payable_usd_str} rounded />
              </Figure>
              <Figure label="In flight" note="In a payout that is not confirmed">
                <Money usd={e.in_flight_usd_str} rounded />
              </Figure>
              <Figure label="Paid out so far" note="Before fees">
                <Money usd={e.paid_usd_str} rounded />
              </Figure>
            </SimpleGrid>
            <Loaded query={account}>
              {(me) => (
                <>
                  <Loaded query={query}>
                    {() => <PayoutForm me={me} earnings={e} payouts={payouts} terms={terms} />}
                  </Loaded>
                  <Convert me={me} earnings={e} />
                </>
              )}
            </Loaded>
          </>
        )}
      </Loaded>
      <Section
        title="Your payouts"
        json={payouts}
        note={<>A payout that failed or was cancelled gives its money back; it uses its hour all the same.</>}
      >
        <div aria-live="polite">
          <Loaded query={query}>
            {() => (
              <List
                payouts={payouts}
                minimum={terms?.minimum_usd_str ?? ''}
                more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
                loadingMore={query.isFetchingNextPage}
              />
            )}
          </Loaded>
        </div>
      </Section>
    </Page>
  );
}

const tones: Record<NonNullable<Payout['state']>, Tone> = {
  requested: 'busy',
  approved: 'busy',
  signing: 'busy',
  submitted: 'busy',
  confirmed: 'good',
  failed: 'bad',
  cancelled: 'neutral',
};

/** What keeps a payout, for its owner. */
const waits: Record<string, string> = {
  approval: 'Waits for an operator’s approval.',
  screening: 'The address is being screened.',
  denied: 'The address was denied. Cancel the payout, and ask the operators.',
  books: 'The books do not answer. It goes on by itself.',
  books_differ: 'The books are being compared.',
  chain: 'The chain does not answer. It goes on by itself.',
  chain_halted: 'Payouts on this chain stand still.',
  reserves_short: 'The platform’s reserves are being filled.',
  hot_wallet_low: 'The platform’s wallet is being filled.',
  gas_low: 'The platform’s wallet waits for gas.',
  quote: 'Waits for a price of the coin.',
  turn: 'Waits for its turn.',
};

function List({
  payouts,
  minimum,
  more,
  loadingMore,
}: {
  payouts: Payout[];
  /** In dollars; empty while it is not known. */
  minimum: string;
  more: (() => void) | undefined;
  loadingMore: boolean;
}) {
  const name = useChainName();
  const columns: Column<Payout>[] = [
    { name: 'Asked', cell: (payout) => <Moment at={payout.requested_at} /> },
    { name: 'State', cell: (payout) => <How of={payout} /> },
    { name: 'Gross', cell: (payout) => <Money usd={payout.gross_usd_str ?? ''} />, numeric: true },
    { name: 'Fee', cell: (payout) => <Money usd={payout.fee_usd_str ?? ''} />, numeric: true },
    { name: 'Net', cell: (payout) => <Money usd={payout.net_usd_str ?? ''} />, numeric: true },
    { name: 'Chain', cell: (payout) => name(payout.chain_id ?? 0) },
    { name: 'To', cell: (payout) => <Id value={payout.address ?? ''} what="address" /> },
    { name: 'Transaction', cell: (payout) => <Transaction hash={payout.tx_hash ?? ''} chain={payout.chain_id ?? 0} /> },
    { name: 'Id', wideOnly: true, cell: (payout) => <Id value={payout.payout_id ?? ''} what="payout id" /> },
    { name: 'More', cell: (payout) => <Acts of={payout} /> },
  ];
  return (
    <DataTable
      caption="Your payouts, the newest first"
      columns={columns}
      rows={payouts}
      id={(payout) => payout.payout_id ?? ''}
      empty={
        minimum === ''
          ? 'You have asked for no payout yet.'
          : `You have asked for no payout yet. From ${dollars(minimum)} payable on you can.`
      }
      more={more}
      loadingMore={loadingMore}
    />
  );
}

function How({ of: payout }: { of: Payout }) {
  const state = payout.state ?? 'requested';
  const rate = payout.rate_usd_str ?? '';
  const needed = payout.approvals_needed ?? 0;
  return (
    <>
      <State tone={tones[state]}>{payout.ending === true && isOpen(payout) ? 'ending, money goes back' : state}</State>
      {isOpen(payout) && (payout.waiting ?? '') !== '' && (
        <Text size="xs">{waits[payout.waiting ?? ''] ?? payout.waiting}</Text>
      )}
      {needed > 0 && (
        <Text size="xs">
          {`Approved by ${payout.approvals_given ?? 0} of ${needed} ${needed === 1 ? 'operator' : 'operators'}.`}
        </Text>
      )}
      {(payout.reason ?? '') !== '' && (
        <Text size="xs" className="breakable">
          {payout.reason}
        </Text>
      )}
      {rate !== '' && !isZero(rate) && <Text size="xs">At ${rate} a coin</Text>}
    </>
  );
}

function Acts({ of: payout }: { of: Payout }) {
  const changed = useChanged();
  const id = payout.payout_id ?? '';
  const cancel = useOnce((key) =>
    answer(
      api.POST('/api/v1/provider/payouts/{payout_id}/cancel', {
        params: { path: { payout_id: id }, header: { 'Idempotency-Key': key } },
      }),
    ),
  );
  const may = (payout.state === 'requested' || payout.state === 'approved') && payout.ending !== true;
  return (
    <>
      {may && (
        <Confirm
          label="Cancel"
          title="Cancel this payout?"
          destructive
          act={async () => {
            await cancel();
            await changed();
          }}
        >
          <Money usd={payout.gross_usd_str ?? ''} /> becomes payable again. The next payout on this chain can be asked
          for an hour after this one was.
        </Confirm>
      )}
      <JsonView value={payout} title={`payout ${id.slice(0, 8)}`} />
    </>
  );
}
