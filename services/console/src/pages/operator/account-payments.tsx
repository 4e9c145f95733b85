// What an account paid by card, and what went back.

import { Stack, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { nano } from '../../format/amounts';
import { dollars } from '../../format/money';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import type { Account } from './account';
import { Act } from './act';
import { needs } from './allowed';
import { useCursorList, useDone } from './lists';
import { useSteadyKey } from './steady-key';

type Checkout = Schemas['ConsumerCheckout'];
type Refund = Schemas['TopUpRefund'];

export function Payments({ account }: { account: Account }) {
  const id = account.account_id;
  const path = { account_id: id };
  const checkouts = useCursorList(['admin', 'account', id, 'checkouts'], (cursor) =>
    answer(
      api.GET('/api/v1/admin/accounts/{account_id}/checkouts', { params: { path, query: { cursor, limit: 20 } } }),
    ),
  );
  const refunds = useCursorList(['admin', 'account', id, 'refunds'], (cursor) =>
    answer(
      api.GET('/api/v1/admin/accounts/{account_id}/checkout-refunds', {
        params: { path, query: { cursor, limit: 20 } },
      }),
    ),
  );
  const paid = checkouts.pages.flatMap((page) => page.checkouts);
  const back = refunds.pages.flatMap((page) => page.refunds);
  return (
    <Section
      title="Payments by card"
      json={{ checkouts: paid, refunds: back }}
      note="The newest first. A fee is not given back."
    >
      <Stack>
        <Loaded query={checkouts.query}>
          {() => (
            <DataTable
              caption="Checkouts"
              columns={columns(account)}
              rows={paid}
              id={(one) => one.checkout_id}
              empty="The account has not paid by card."
              more={checkouts.more}
              loadingMore={checkouts.loadingMore}
            />
          )}
        </Loaded>
        <Loaded query={refunds.query}>
          {() => (
            <DataTable
              caption="Refunds of top-ups"
              columns={refundColumns}
              rows={back}
              id={(one) => one.refund_id}
              empty="No top-up went back."
              more={refunds.more}
              loadingMore={refunds.loadingMore}
            />
          )}
        </Loaded>
      </Stack>
    </Section>
  );
}

function columns(account: Account): Column<Checkout>[] {
  return [
    { name: 'Checkout', cell: (one) => <Id value={one.checkout_id} what="checkout id" /> },
    { name: 'For', cell: (one) => (one.purpose === 'plan' ? `plan ${one.plan}` : 'credit') },
    { name: 'State', cell: (one) => <CheckoutState checkout={one} /> },
    { name: 'Opened', cell: (one) => <Moment at={one.created_at} /> },
    { name: 'Paid', cell: (one) => <Moment at={one.paid_at} /> },
    { name: 'Processor', cell: (one) => `${one.processor}${one.livemode ? '' : ', no money moves'}` },
    { name: 'Bought', numeric: true, cell: (one) => <Money usd={one.amount_usd_str} /> },
    { name: 'Fee', numeric: true, cell: (one) => <Money usd={one.fee_usd_str} /> },
    { name: 'Act', cell: (one) => <RefundTopUp account={account} checkout={one} /> },
  ];
}

function CheckoutState({ checkout }: { checkout: Checkout }) {
  const word = checkout.state.replace('CHECKOUT_STATE_', '').toLowerCase();
  return <State tone={word === 'paid' ? 'good' : word === 'created' ? 'busy' : 'neutral'}>{word}</State>;
}

const refundColumns: Column<Refund>[] = [
  { name: 'Refund', cell: (one) => <Id value={one.refund_id} what="refund id" /> },
  { name: 'Of checkout', cell: (one) => <Id value={one.checkout_id} what="checkout id" /> },
  { name: 'State', cell: (one) => <RefundState refund={one} /> },
  { name: 'Asked', cell: (one) => <Moment at={one.asked_at} /> },
  { name: 'By', cell: (one) => one.asked_by.replace(/^operator:/, 'operator ').replace(/@.*/, '') },
  { name: 'Why', cell: (one) => <span className="breakable">{one.note || '–'}</span> },
  { name: 'Ended', cell: (one) => <Moment at={one.ended_at} /> },
  { name: 'Amount', numeric: true, cell: (one) => <Money usd={one.amount_usd_str} /> },
];

const refundStates: Record<string, string> = {
  asked: 'under way',
  by_card: 'on the card',
  reversed: 'not taken, credit again',
};

function RefundState({ refund }: { refund: Refund }) {
  const tone = refund.state === 'by_card' ? 'good' : refund.state === 'asked' ? 'busy' : 'warning';
  return <State tone={tone}>{refundStates[refund.state] ?? refund.state}</State>;
}

function RefundTopUp({ account, checkout }: { account: Account; checkout: Checkout }) {
  const done = useDone();
  const key = useSteadyKey();
  const [amount, setAmount] = useState('');
  if (checkout.purpose !== 'topup' || checkout.state !== 'CHECKOUT_STATE_PAID') return <>–</>;
  return (
    <Act
      label="Refund"
      title="Give credit back to the card?"
      permission={needs['POST /api/v1/admin/accounts/{account_id}/checkouts/{checkout_id}/refund']}
      destructive
      facts={[
        ['To whom', 'the card that paid'],
        ['Bought', dollars(checkout.amount_usd_str)],
        ['Amount', amount === '' ? 'all that may be given back' : dollars(amount)],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in 1 to 200 characters. It is kept with the refund."
      params={['amount_usd']}
      fields={(form) => (
        <TextInput
          label="Amount in US dollars"
          description="In whole cents. Empty for all that may be given back."
          value={amount}
          onChange={(event) => setAmount(event.currentTarget.value.trim())}
          error={form.of('amount_usd')}
          leftSection="$"
          inputMode="decimal"
          autoComplete="off"
        />
      )}
      run={({ reason }) => {
        const value = amount === '' ? 1n : nano(amount);
        if (value === null || value <= 0n) {
          throw new ApiError('Give an amount above $0 in whole cents, or none.', {
            status: 400,
            code: 'invalid_value',
            param: 'amount_usd',
          });
        }
        return answer(
          api.POST('/api/v1/admin/accounts/{account_id}/checkouts/{checkout_id}/refund', {
            params: { path: { account_id: account.account_id, checkout_id: checkout.checkout_id } },
            body: {
              amount_usd: amount,
              note: reason,
              idempotency_key: key.of(`${checkout.checkout_id} ${amount} ${reason}`),
            },
          }),
        );
      }}
      done={() => {
        key.clear();
        setAmount('');
        done('The refund is asked for. The list says how it ends.');
      }}
    >
      The credit is taken from the account at once, at most what was bought and what no request holds. If the card does
      not take it, it is credit again. The fee is not given back.
    </Act>
  );
}
