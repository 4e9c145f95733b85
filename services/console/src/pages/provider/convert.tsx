// Earnings become credit of the same user.

import { Group, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { isBelow, nano } from '../../format/amounts';
import { dollars, isZero } from '../../format/money';
import { Confirm } from '../../ui/confirm';
import { Anchor, Section } from '../../ui/page';
import { Money } from '../../ui/text';
import { useChanged, useOnce, type Account, type Earnings } from './queries';

export function Convert({ me, earnings }: { me: Account; earnings: Earnings }) {
  const [amount, setAmount] = useState('');
  const [done, setDone] = useState('');
  const changed = useChanged();
  const payable = earnings.payable_usd_str;
  const used = amount.trim() === '' ? payable : amount.trim();
  const convert = useOnce((key) =>
    answer(
      api.POST('/api/v1/provider/convert', {
        params: { header: { 'Idempotency-Key': key } },
        body: { amount_usd: used },
      }),
    ),
  );
  const wrong =
    nano(used) === null
      ? 'This is no amount. Write it like 25.50.'
      : isBelow(payable, used)
        ? `Only ${dollars(payable)} is payable.`
        : undefined;
  return (
    <Section
      title="Turn earnings into credit"
      note={<>For requests of your own account, at par: no fee and no minimum, also while a payout is open.</>}
    >
      {me.account_id === '' ? (
        <Text size="sm">This provider belongs to no user’s account, so there is no credit to turn earnings into.</Text>
      ) : isZero(payable) ? (
        <Text size="sm">Nothing is payable now. What is settled becomes payable with its daily batch.</Text>
      ) : (
        <Stack gap="sm">
          <TextInput
            label="Amount in dollars to turn into credit"
            description={`Empty: all that is payable, ${dollars(payable)}.`}
            value={amount}
            onChange={(event) => setAmount(event.currentTarget.value)}
            error={amount === '' ? undefined : wrong}
            inputMode="decimal"
            autoComplete="off"
            maxLength={32}
            maw={360}
          />
          <Group>
            <Confirm
              label="Turn into credit"
              title={`Turn ${dollars(used)} into credit?`}
              size="sm"
              disabled={wrong !== undefined || isZero(used)}
              act={async () => {
                await convert();
                setDone(used);
                setAmount('');
                await changed();
              }}
            >
              <Money usd={used} /> of your payable earnings becomes credit of your account, at once. It cannot be turned
              back into earnings.
            </Confirm>
          </Group>
          <Text size="sm" role="status">
            {done !== '' && (
              <>
                {dollars(done)} became credit.{' '}
                <Anchor component={Link} to="/billing" inherit>
                  See your balance
                </Anchor>
              </>
            )}
          </Text>
        </Stack>
      )}
    </Section>
  );
}
