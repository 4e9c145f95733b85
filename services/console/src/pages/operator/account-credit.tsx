// Credit that operators give: goodwill, and what a request or a plan cost.

import { NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { ApiError } from '../../api/error';
import { nano, usd } from '../../format/amounts';
import { dollars } from '../../format/money';
import type { Account } from './account';
import { Act } from './act';
import { needs } from './allowed';
import { useDone } from './lists';
import { useSteadyKey } from './steady-key';

export function GrantCredit({ account }: { account: Account }) {
  const done = useDone();
  const key = useSteadyKey();
  const [amount, setAmount] = useState('');
  const value = nano(amount);
  const [has, most] = [nano(account.balance_usd_str), 1_000_000n * 10n ** 9n];
  const after = value === null || has === null || value <= 0n ? '–' : dollars(usd(has + value));
  return (
    <Act
      label="Give credit"
      title="Give credit?"
      permission={needs['POST /api/v1/admin/accounts/{account_id}/credit']}
      facts={[
        ['To whom', account.name || account.account_id],
        ['Balance now', dollars(account.balance_usd_str)],
        ['Balance then', after],
        ['Who pays', 'the platform'],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in 1 to 200 characters. It stands on the entry and in the audit log."
      params={['amount_usd']}
      fields={(form) => (
        <TextInput
          label="Amount in US dollars"
          description="Above 0, at most 1,000,000, with at most nine decimals."
          value={amount}
          onChange={(event) => setAmount(event.currentTarget.value.trim())}
          error={form.of('amount_usd')}
          leftSection="$"
          inputMode="decimal"
          autoComplete="off"
        />
      )}
      run={({ reason }) => {
        if (value === null || value <= 0n || value > most)
          throw bad('amount_usd', 'Give an amount above $0 and at most $1,000,000.');
        const contents = `${account.account_id} ${value} ${reason}`;
        return answer(
          api.POST('/api/v1/admin/accounts/{account_id}/credit', {
            params: { path: { account_id: account.account_id } },
            body: { amount_usd: amount, memo: reason, idempotency_key: key.of(contents) },
          }),
        );
      }}
      done={() => {
        key.clear();
        setAmount('');
        done('The credit is given.');
      }}
    >
      The account can spend it at once. It is the platform’s expense, one balanced entry, and no route takes it back.
    </Act>
  );
}

function bad(param: string, message: string): ApiError {
  return new ApiError(message, { status: 400, code: 'invalid_value', param });
}

const causes = [
  { value: 'provider_fault', label: 'The provider was at fault' },
  { value: 'goodwill', label: 'Goodwill' },
];

export function RefundRequest({ account }: { account: Account }) {
  const done = useDone();
  const [request, setRequest] = useState('');
  const [cause, setCause] = useState('provider_fault');
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">All that a settled request was charged, once.</Text>
      <Act
        label="Refund a request"
        title="Refund a request?"
        permission={needs['POST /api/v1/admin/accounts/{account_id}/refunds']}
        facts={[
          ['To whom', account.name || account.account_id],
          ['Amount', 'all that the request was charged'],
          [
            'Who pays',
            cause === 'goodwill' ? 'the platform' : 'the provider gives its payout back, the platform its margin',
          ],
          ['Second person', 'none is needed'],
        ]}
        reason="Why, in 1 to 200 characters. It stands on the entry and in the audit log."
        params={['request_id', 'cause']}
        fields={(form) => (
          <>
            <TextInput
              label="Id of the request"
              value={request}
              onChange={(event) => setRequest(event.currentTarget.value.trim())}
              error={form.of('request_id')}
              autoComplete="off"
            />
            <NativeSelect
              label="Cause"
              description="It decides who bears it. Where a vendor served, or less was paid than was earned, it is goodwill."
              value={cause}
              data={causes}
              onChange={(event) => setCause(event.currentTarget.value)}
              error={form.of('cause')}
            />
          </>
        )}
        run={({ reason }) => {
          if (request === '') throw bad('request_id', 'Give the id of the request.');
          return answer(
            api.POST('/api/v1/admin/accounts/{account_id}/refunds', {
              params: { path: { account_id: account.account_id } },
              body: { request_id: request, cause, note: reason },
            }),
          );
        }}
        done={({ amount_usd_str }) => {
          setRequest('');
          done(`${dollars(amount_usd_str)} went back to the account.`);
        }}
      >
        The account has the credit at once. A request is refunded once, whatever the cause: it cannot be refunded again
        or in part. What a provider was already paid becomes its debt.
      </Act>
    </Stack>
  );
}
