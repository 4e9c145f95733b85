// A payout: what it costs, whether it can be asked for now, and the asking.

import { Alert, List, Stack, Text, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { isBelow, less, nano } from '../../format/amounts';
import { dollars } from '../../format/money';
import { duration } from '../../format/quantity';
import { Form, useForm } from '../../ui/form';
import { Anchor, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Money, Moment } from '../../ui/text';
import { useChainName } from './chains';
import { useChanged, type Account, type Earnings, type Payout, type PayoutTerms } from './queries';
import { isAhead } from './words';

const final: Payout['state'][] = ['confirmed', 'failed', 'cancelled'];

export function isOpen(payout: Payout): boolean {
  return !final.includes(payout.state);
}

interface Own {
  me: Account;
  earnings: Earnings;
  /** The newest first. */
  payouts: Payout[];
  /** Null where settlement does not state them. */
  terms: PayoutTerms | null;
}

export function PayoutForm(own: Own) {
  return (
    <Section title="Ask for a payout" json={own.terms}>
      {own.terms === null ? (
        <Text size="sm">The terms of payouts are not known now, so no payout can be asked for here.</Text>
      ) : (
        <Ask own={own} terms={own.terms} />
      )}
    </Section>
  );
}

function Ask({ own, terms }: { own: Own; terms: PayoutTerms }) {
  const { me, earnings } = own;
  const now = useNow(15);
  const name = useChainName();
  const chain = me.collateral.detail?.settlement_chain_id;
  const paid = chain === undefined ? terms.chains[0] : terms.chains.find((one) => one.chain_id === chain);
  const blocked = blockers(own, terms, now);
  return (
    <Stack>
      <Facts
        facts={[
          ['Payable', <Money usd={earnings.payable_usd_str} />],
          [
            'Fee',
            paid === undefined ? (
              'nothing is paid on your settlement chain now'
            ) : (
              <>{dollars(paid.fee_usd_str)} a payout, taken from the amount; the platform pays the gas</>
            ),
          ],
          [
            'Amount',
            <>
              {dollars(terms.minimum_usd_str)} to {dollars(terms.maximum_usd_str)}, before the fee
            </>,
          ],
          ['How often', `one at a time, and one in ${duration(terms.interval_seconds)}`],
          [
            'Next one',
            isAhead(terms.next_at, now) ? (
              <>
                from <Moment at={terms.next_at} withAge /> on
              </>
            ) : own.payouts.some(isOpen) ? (
              'once the open one has ended'
            ) : (
              'can be asked for now'
            ),
          ],
          ['Approval', approval(terms)],
          [
            'Goes to',
            me.beneficiary.address === '' ? (
              'no address is set'
            ) : (
              <Id value={me.beneficiary.address} what="beneficiary address" />
            ),
          ],
          [
            'On',
            <>
              {chain === undefined ? 'your settlement chain' : name(chain)}
              {paid !== undefined && chain !== undefined && <>, in {paid.token_symbol}</>}
            </>,
          ],
        ]}
      />
      <div aria-live="polite">
        {blocked.length > 0 || paid === undefined ? (
          <Alert color="yellow" variant="light" title="A payout cannot be asked for now">
            <List size="sm" spacing={4}>
              {paid === undefined && <List.Item>Nothing is paid on your settlement chain now.</List.Item>}
              {blocked.map(({ id, text }) => (
                <List.Item key={id}>{text}</List.Item>
              ))}
            </List>
          </Alert>
        ) : (
          <Amount payable={earnings.payable_usd_str} terms={terms} fee={paid.fee_usd_str} />
        )}
      </div>
    </Stack>
  );
}

/** Who must approve. */
function approval(terms: PayoutTerms): string {
  const [alone, one] = [terms.alone_usd_str, terms.one_operator_usd_str].map(dollars);
  return (
    `by itself up to ${alone}, while such payouts of all providers are within the day’s bound; ` +
    `else by an operator, and above ${one} by two`
  );
}

function Amount({ payable, terms, fee }: { payable: string; terms: PayoutTerms; fee: string }) {
  const [amount, setAmount] = useState('');
  const changed = useChanged();
  const gross = amount.trim() === '' ? payable.replace(/(\.\d{6})\d+$/, '$1') : amount.trim();
  const net = less(gross, fee);
  const form = useForm(
    (key) =>
      answer(
        api.POST('/api/v1/provider/payouts', {
          params: { header: { 'Idempotency-Key': key } },
          body: { amount_usd: gross },
        }),
      ),
    () => {
      setAmount('');
      void changed();
    },
  );
  return (
    <Form form={form} label={`Ask for ${dollars(gross)}`} params={['amount_usd']}>
      <TextInput
        label="Amount in dollars, before the fee"
        description={`Empty: all that is payable, ${dollars(payable)}.`}
        value={amount}
        onChange={(event) => setAmount(event.currentTarget.value)}
        error={form.of('amount_usd') ?? wrong(gross, payable, terms)}
        inputMode="decimal"
        autoComplete="off"
        maxLength={32}
        maw={360}
      />
      <Text size="sm" role="status" className="tabular">
        {net === null || isBelow(gross, terms.minimum_usd_str)
          ? ''
          : `${dollars(gross)} less the fee of ${dollars(fee)}: you get ${dollars(net)}.`}
      </Text>
    </Form>
  );
}

function wrong(gross: string, payable: string, terms: PayoutTerms): string | undefined {
  if (nano(gross) === null) return 'This is no amount. Write it like 25.50.';
  if (isBelow(gross, terms.minimum_usd_str)) return `A payout is at least ${dollars(terms.minimum_usd_str)}.`;
  if (isBelow(terms.maximum_usd_str, gross)) return `A payout is at most ${dollars(terms.maximum_usd_str)}.`;
  if (isBelow(payable, gross)) return `Only ${dollars(payable)} is payable.`;
  return undefined;
}

function blockers({ me, earnings, payouts }: Own, terms: PayoutTerms, now: number): { id: string; text: ReactNode }[] {
  const found: { id: string; text: ReactNode }[] = [];
  if (me.beneficiary.address === '') {
    found.push({
      id: 'beneficiary',
      text: (
        <>
          No beneficiary address is set.{' '}
          <Anchor component={Link} to="/provider/settings" inherit>
            Set one
          </Anchor>
        </>
      ),
    });
  }
  if (isAhead(me.beneficiary.cooling_until, now)) {
    found.push({
      id: 'cooling',
      text: (
        <>
          The beneficiary address is new: nothing is paid out before{' '}
          <Moment at={me.beneficiary.cooling_until} withAge />.
        </>
      ),
    });
  }
  if (payouts.some(isOpen))
    found.push({ id: 'open', text: 'A payout is open. The next one can be asked for once it has ended.' });
  if (isAhead(terms.next_at, now)) {
    const wait = duration((Date.parse(terms.next_at) - now) / 1000);
    found.push({
      id: 'interval',
      text: `There is one payout in ${duration(terms.interval_seconds)}. The next one can be asked for in ${wait}.`,
    });
  }
  if (me.collateral.detail?.refund != null) found.push({ id: 'refund', text: 'A refund of your collateral is open.' });
  if (isBelow(earnings.payable_usd_str, terms.minimum_usd_str)) {
    found.push({
      id: 'minimum',
      text:
        `${dollars(earnings.payable_usd_str)} is payable, and a payout is at least ` +
        `${dollars(terms.minimum_usd_str)}. What is settled becomes payable with its daily batch.`,
    });
  }
  return found;
}
