// Payments by card, and credit that goes back to the card.

import { Stack, Text, TextInput } from '@mantine/core';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { useNow } from '../../app/live';
import { answer, api, type Schemas } from '../../api/client';
import { Confirm } from '../../ui/confirm';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money, State, type Tone } from '../../ui/text';
import { checkoutState } from './checkout-state';
import { useOnce } from './once';
import { balanceKey, checkoutsKey, ledgerKey, scope } from './queries';

type Checkout = Schemas['ConsumerCheckout'];
type Refund = Schemas['TopUpRefund'];

const refundsKey = [scope, 'refunds'] as const;

/** How long after a payment a consumer may ask for its unspent credit back. */
const refundableMs = 14 * 86_400_000;

export function CardPayments({ onOpen }: { onOpen: (id: string) => void }) {
  const now = useNow();
  const payments = useInfiniteQuery({
    queryKey: [...checkoutsKey, 'all'],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/consumer/checkout', { params: { query: { before: pageParam || undefined, limit: 20 } } }),
      ),
    getNextPageParam: (page) => (page.more ? page.checkouts.at(-1)?.checkout_id : undefined),
  });
  const list = payments.data?.pages.flatMap((page) => page.checkouts) ?? [];
  const columns: Column<Checkout>[] = [
    { name: 'Made', cell: (checkout) => <Moment at={checkout.created_at} /> },
    { name: 'For', cell: (checkout) => (checkout.purpose === 'plan' ? `Plan ${checkout.plan}` : 'Credit') },
    {
      name: 'State',
      cell: (checkout) => <State tone={checkoutState(checkout).tone}>{checkoutState(checkout).word}</State>,
    },
    { name: 'Amount', numeric: true, cell: (checkout) => <Money usd={checkout.amount_usd_str} /> },
    { name: 'Fee', numeric: true, cell: (checkout) => <Money usd={checkout.fee_usd_str} /> },
    { name: 'Payment', cell: (checkout) => <Id value={checkout.checkout_id} what="payment id" /> },
    { name: 'Refund', cell: (checkout) => (isRefundable(checkout, now) ? <RefundButton checkout={checkout} /> : '–') },
  ];
  return (
    <>
      <Section
        title="Payments by card"
        json={list}
        note="Unspent credit can go back to the card for 14 days after its payment, without the fee."
      >
        <Loaded query={payments}>
          {() => (
            <DataTable
              caption="Payments by card"
              columns={columns}
              rows={list}
              id={(checkout) => checkout.checkout_id}
              empty="You have paid nothing by card yet. Add credit above."
              onOpen={(checkout) => onOpen(checkout.checkout_id)}
              more={payments.hasNextPage ? () => void payments.fetchNextPage() : undefined}
              loadingMore={payments.isFetchingNextPage}
            />
          )}
        </Loaded>
      </Section>
      <Refunds />
    </>
  );
}

function isRefundable(checkout: Checkout, now: number): boolean {
  return checkout.purpose === 'topup' && checkout.paid_at !== null && now - Date.parse(checkout.paid_at) < refundableMs;
}

function RefundButton({ checkout }: { checkout: Checkout }) {
  const queries = useQueryClient();
  const once = useOnce();
  const [amount, setAmount] = useState('');
  async function act() {
    const params = { path: { checkout_id: checkout.checkout_id } };
    const body = amount.trim() === '' ? {} : { amount_usd: amount.trim() };
    await once((key) =>
      answer(
        api.POST('/api/v1/consumer/checkout/{checkout_id}/refund', {
          params,
          headers: { 'Idempotency-Key': key },
          body,
        }),
      ),
    );
    for (const queryKey of [balanceKey, ledgerKey, checkoutsKey, refundsKey])
      void queries.invalidateQueries({ queryKey });
  }
  return (
    <Confirm label="Refund" title="Give credit back to the card?" act={act} destructive>
      <Stack gap="sm">
        <Text size="sm">
          The credit is taken from the account at once and goes back to the card that paid it. The fee is not given
          back. If the card does not take it, it is credit again.
        </Text>
        <TextInput
          label="US dollars"
          description="Leave it empty for all that is unspent. What you spent counts against the newest payment first."
          inputMode="decimal"
          value={amount}
          onChange={(event) => setAmount(event.currentTarget.value)}
        />
      </Stack>
    </Confirm>
  );
}

const states: Record<string, { word: string; tone: Tone }> = {
  asked: { word: 'Asked', tone: 'busy' },
  by_card: { word: 'On the card', tone: 'good' },
  reversed: { word: 'Credit again', tone: 'warning' },
};

const refundColumns: Column<Refund>[] = [
  { name: 'Asked', cell: (refund) => <Moment at={refund.asked_at} /> },
  { name: 'By', cell: (refund) => (refund.asked_by === 'consumer' ? 'You' : 'An operator') },
  {
    name: 'State',
    cell: (refund) => (
      <State tone={states[refund.state]?.tone ?? 'neutral'}>{states[refund.state]?.word ?? refund.state}</State>
    ),
  },
  { name: 'Note', cell: (refund) => <span className="breakable">{refund.note || '–'}</span> },
  { name: 'Ended', cell: (refund) => <Moment at={refund.ended_at} /> },
  { name: 'Amount', numeric: true, cell: (refund) => <Money usd={refund.amount_usd_str} /> },
  { name: 'Refund', cell: (refund) => <Id value={refund.refund_id} what="refund id" /> },
];

function Refunds() {
  const refunds = useInfiniteQuery({
    queryKey: refundsKey,
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/consumer/refunds', { params: { query: { cursor: pageParam || undefined, limit: 20 } } })),
    getNextPageParam: (page) => page.next_cursor || undefined,
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.refunds.some((refund) => refund.state === 'asked')) === true
        ? 10_000
        : false,
  });
  const list = refunds.data?.pages.flatMap((page) => page.refunds) ?? [];
  return (
    <Section
      title="Refunds to the card"
      json={list}
      note={
        <>
          “Asked” means that the card processor has not said yet how it ends. “Credit again” means that the card did not
          take it.
        </>
      }
    >
      <Loaded query={refunds}>
        {() => (
          <DataTable
            caption="Refunds to the card"
            columns={refundColumns}
            rows={list}
            id={(refund) => refund.refund_id}
            empty="Nothing went back to a card."
            more={refunds.hasNextPage ? () => void refunds.fetchNextPage() : undefined}
            loadingMore={refunds.isFetchingNextPage}
          />
        )}
      </Loaded>
    </Section>
  );
}
