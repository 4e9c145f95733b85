// Credit by card. The card is entered on the processor's own page: this page never sees it.

import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState, type FormEvent } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Form, useForm } from '../../ui/form';
import { Loaded, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import { checkoutState } from './checkout-state';
import { CardPayments } from './credits-payments';
import { isBelow } from './exact';
import { balanceKey, checkoutsKey, ledgerKey, scope } from './queries';
import { outside } from './words';

export function CardCredits() {
  const [filters, setFilters] = useFilters({ checkout: '', returned: '' });
  const newest = useNewestTopUp(filters.checkout === '' && filters.returned !== '');
  const checkout = filters.checkout || newest;
  return (
    <Stack gap="lg">
      {checkout !== '' && <Payment id={checkout} onClose={() => setFilters({ checkout: '', returned: '' })} />}
      {checkout === '' && <TopUp onMade={(id) => setFilters({ checkout: id })} />}
      <CardPayments onOpen={(id) => setFilters({ checkout: id, returned: '' })} />
    </Stack>
  );
}

/**
 * The id of the newest payment of credit, for a browser that comes back from the processor's page: its address was
 * made before the payment had an id.
 */
function useNewestTopUp(wanted: boolean): string {
  const found = useQuery({
    queryKey: [...checkoutsKey, 'newest'],
    enabled: wanted,
    queryFn: () => answer(api.GET('/api/v1/consumer/checkout', { params: { query: { limit: 20 } } })),
  });
  if (!wanted) return '';
  return found.data?.checkouts.find((checkout) => checkout.purpose === 'topup')?.checkout_id ?? '';
}

const least = '5';
const most = '10000';

function TopUp({ onMade }: { onMade: (id: string) => void }) {
  const queries = useQueryClient();
  const [amount, setAmount] = useState('20.00');
  const [problem, setProblem] = useState<string>();
  const form = useForm(
    (key) =>
      answer(
        api.POST('/api/v1/consumer/checkout', {
          headers: { 'Idempotency-Key': key },
          body: { amount_usd: amount.trim(), return_url: `${window.location.origin}/app/credits?returned=1` },
        }),
      ),
    (made) => {
      void queries.invalidateQueries({ queryKey: checkoutsKey });
      onMade(made.checkout_id);
    },
  );
  function onSubmit(event?: FormEvent) {
    event?.preventDefault();
    const wrong = problemOf(amount);
    setProblem(wrong);
    if (wrong === undefined) form.onSubmit();
  }
  return (
    <Section
      title="Add credit by card"
      note="The fee of the card processor is paid beside the credit. The next step shows it, before anything is paid."
    >
      <Form form={{ ...form, onSubmit }} label="Show the fee" params={['amount_usd', 'amount_cents']}>
        <TextInput
          label="Credit in US dollars"
          description="From $5 to $10,000, in whole cents."
          inputMode="decimal"
          maw={260}
          value={amount}
          onChange={(event) => setAmount(event.currentTarget.value)}
          error={problem ?? form.of('amount_usd') ?? form.of('amount_cents')}
        />
      </Form>
    </Section>
  );
}

function problemOf(amount: string): string | undefined {
  if (!/^\d{1,7}(\.\d{1,2})?$/.test(amount.trim())) return 'Write dollars and cents, for example 20.00.';
  if (isBelow(amount, least) || isBelow(most, amount)) return 'The amount must be from $5 to $10,000.';
  return undefined;
}

/** One payment: what it costs, where it is paid, and what has become of it. */
function Payment({ id, onClose }: { id: string; onClose: () => void }) {
  const queries = useQueryClient();
  const query = useQuery({
    queryKey: [scope, 'checkout', id],
    queryFn: () =>
      answer(api.GET('/api/v1/consumer/checkout/{checkout_id}', { params: { path: { checkout_id: id } } })),
    refetchInterval: ({ state }) =>
      state.data === undefined || state.data.checkout?.state === 'CHECKOUT_STATE_CREATED' ? 3_000 : false,
  });
  const paid = query.data?.checkout?.state === 'CHECKOUT_STATE_PAID';
  useEffect(() => {
    if (!paid) return;
    for (const queryKey of [balanceKey, ledgerKey, checkoutsKey]) void queries.invalidateQueries({ queryKey });
  }, [paid, queries]);
  return (
    <Section
      title="This payment"
      json={query.data}
      actions={
        <Button size="xs" variant="default" onClick={onClose}>
          Add other credit
        </Button>
      }
    >
      <Loaded query={query}>
        {({ checkout }) => (checkout === null ? null : <PaymentFacts checkout={checkout} />)}
      </Loaded>
    </Section>
  );
}

function PaymentFacts({ checkout }: { checkout: Schemas['ConsumerCheckout'] }) {
  const state = checkoutState(checkout);
  const page = outside(checkout.url);
  return (
    <Stack>
      <div aria-live="polite">
        <Group gap="xs">
          <State tone={state.tone}>{state.word}</State>
          <Text size="sm">{state.text}</Text>
        </Group>
      </div>
      <Facts
        facts={[
          [checkout.purpose === 'plan' ? `Plan ${checkout.plan}` : 'Credit', <Money usd={checkout.amount_usd_str} />],
          ['Fee', <Money usd={checkout.fee_usd_str} />],
          ['The card is charged', <Money usd={checkout.total_usd_str} />],
          ['Payment', <Id value={checkout.checkout_id} what="payment id" />],
          state.open
            ? ['Can be paid until', <Moment at={checkout.expires_at} withAge />]
            : ['Paid', <Moment at={checkout.paid_at} />],
        ]}
      />
      {state.open && page !== undefined && (
        <Group>
          <Button component="a" href={page} rel="noreferrer">
            Go to the card page
          </Button>
          {checkout.processor === 'sandbox' && (
            <Text size="sm">No money moves: this installation has a sandbox in place of a card processor.</Text>
          )}
        </Group>
      )}
    </Stack>
  );
}
