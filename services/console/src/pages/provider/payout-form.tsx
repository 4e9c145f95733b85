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
import { useChanged, type Account, type Earnings, type Payout } from './queries';
import { isAhead } from './words';

/** The terms of payouts, as the API describes them. */
const minimum = '10';
const fee = '1';
const coolDown = 3_600_000;

const final: Payout['state'][] = ['confirmed', 'failed', 'cancelled'];

export function isOpen(payout: Payout): boolean {
  return !final.includes(payout.state);
}

interface Own {
  me: Account;
  earnings: Earnings;
  /** The newest first. */
  payouts: Payout[];
}

export function PayoutForm(own: Own) {
  const { me, earnings, payouts } = own;
  const now = useNow(15);
  const name = useChainName();
  const blocked = blockers(own, now);
  const newest = payouts[0]?.requested_at;
  const chain = me.collateral.detail?.settlement_chain_id;
  return (
    <Section
      title="Ask for a payout"
      note={
        <>
          Up to $1,000 a payout is approved by itself while the day’s limit lasts, above that by an operator, and above
          $10,000 by two.
        </>
      }
    >
      <Stack>
        <Facts
          facts={[
            ['Payable', <Money usd={earnings.payable_usd_str} />],
            ['Fee', <>{dollars(fee)} a payout, taken from the amount</>],
            ['Minimum', <>{dollars(minimum)} before the fee</>],
            [
              'How often',
              newest === undefined || newest === null ? (
                'once an hour, one at a time'
              ) : (
                <>
                  once an hour, one at a time; the last was asked at <Moment at={newest} withAge />
                </>
              ),
            ],
            [
              'Goes to',
              me.beneficiary.address === '' ? (
                'no address is set'
              ) : (
                <Id value={me.beneficiary.address} what="beneficiary address" />
              ),
            ],
            ['On', chain === undefined ? 'your settlement chain' : name(chain)],
          ]}
        />
        <div aria-live="polite">
          {blocked.length > 0 ? (
            <Alert color="yellow" variant="light" title="A payout cannot be asked for now">
              <List size="sm" spacing={4}>
                {blocked.map(({ id, text }) => (
                  <List.Item key={id}>{text}</List.Item>
                ))}
              </List>
            </Alert>
          ) : (
            <Amount payable={earnings.payable_usd_str} />
          )}
        </div>
      </Stack>
    </Section>
  );
}

function Amount({ payable }: { payable: string }) {
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
        error={form.of('amount_usd') ?? wrong(gross, payable)}
        inputMode="decimal"
        autoComplete="off"
        maxLength={32}
        maw={360}
      />
      <Text size="sm" role="status" className="tabular">
        {net === null || isBelow(gross, minimum)
          ? ''
          : `${dollars(gross)} less the fee of ${dollars(fee)}: you get ${dollars(net)}.`}
      </Text>
    </Form>
  );
}

function wrong(gross: string, payable: string): string | undefined {
  if (nano(gross) === null) return 'This is no amount. Write it like 25.50.';
  if (isBelow(gross, minimum)) return `A payout is at least ${dollars(minimum)}.`;
  if (isBelow(payable, gross)) return `Only ${dollars(payable)} is payable.`;
  return undefined;
}

function blockers({ me, earnings, payouts }: Own, now: number): { id: string; text: ReactNode }[] {
  const found: { id: string; text: ReactNode }[] = [];
  if (me.beneficiary.address === '') {
    found.push({
      id: 'beneficiary',
      text: (
        <>
          No beneficiary address is set.{' '}
          <Anchor component={Link} to="/provider/settings">
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
  const newest = payouts[0]?.requested_at;
  const wait = newest === undefined || newest === null ? 0 : Date.parse(newest) + coolDown - now;
  if (wait > 0)
    found.push({
      id: 'hour',
      text: `A payout was asked for within the last hour. The next one can be asked for in ${duration(wait / 1000)}.`,
    });
  if (me.collateral.detail?.refund != null) found.push({ id: 'refund', text: 'A refund of your collateral is open.' });
  if (isBelow(earnings.payable_usd_str, minimum)) {
    found.push({
      id: 'minimum',
      text:
        `${dollars(earnings.payable_usd_str)} is payable, and a payout is at least ${dollars(minimum)}. ` +
        'What is settled becomes payable with its daily batch.',
    });
  }
  return found;
}
