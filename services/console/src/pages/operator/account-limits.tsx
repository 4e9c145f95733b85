// The limits of an account. The rate is of each of its keys; concurrency and caps are of the account.

import { SimpleGrid, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { nano } from '../../format/amounts';
import { Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Moment, Money } from '../../ui/text';
import type { Account } from './account';
import { Act } from './act';
import { needs } from './allowed';
import { useDone } from './lists';

type Spend = Schemas['SpendBound'];

export function AccountLimits({ account, limits }: { account: Account; limits: Schemas['ConsumerLimits'] | null }) {
  return (
    <Section
      title="Limits"
      json={{ operator: account.limits, counted: limits }}
      note="Of an operator’s cap and the account’s own the lower one counts. Days and months are UTC."
      actions={<SetLimits key={JSON.stringify(account.limits)} account={account} />}
    >
      <Facts
        facts={[
          [
            'Requests a minute, each key',
            numberWords(account.limits?.requests_per_minute ?? 0, 'the default of the category'),
          ],
          ['Requests at once, all keys together', numberWords(account.limits?.concurrent_requests ?? 0, 'the default')],
          ['Operator’s cap a day', <Cap key="day" usd={account.limits?.day_cap_usd ?? ''} />],
          ['Operator’s cap a month', <Cap key="month" usd={account.limits?.month_cap_usd ?? ''} />],
          ['Its own cap a day', <Cap key="ownDay" usd={limits?.own_day_cap_usd_str ?? ''} />],
          ['Its own cap a month', <Cap key="ownMonth" usd={limits?.own_month_cap_usd_str ?? ''} />],
          ['Spent today', <Spent key="today" bound={limits?.day ?? null} />],
          ['Spent this month', <Spent key="thisMonth" bound={limits?.month ?? null} />],
        ]}
      />
    </Section>
  );
}

/** 0 takes the default, and -1 is without limit. */
export function numberWords(value: number, zero: string): string {
  if (value === 0) return zero;
  return value < 0 ? 'without limit' : value.toLocaleString('en-US');
}

function Cap({ usd }: { usd: string }) {
  return usd === '' ? <>none</> : <Money usd={usd} />;
}

function Spent({ bound }: { bound: Spend | null }) {
  if (bound === null) return <>not counted, because there is no cap</>;
  return (
    <>
      <Money usd={bound.spent_usd_str} /> of <Money usd={bound.bound_usd_str} />, a new window{' '}
      <Moment at={bound.resets_at} withAge />
    </>
  );
}

const fields = [
  ['requests_per_minute', 'Requests a minute', 'Of each key. 0 takes the category’s default, -1 is without limit.'],
  ['concurrent_requests', 'Requests at once', 'Of all keys together. 0 takes the default, -1 is without limit.'],
  ['day_cap_usd', 'Cap a day', 'US dollars from 0 to 1,000,000. Empty for none.'],
  ['month_cap_usd', 'Cap a month', 'US dollars from 0 to 1,000,000. Empty for none.'],
] as const;

function SetLimits({ account }: { account: Account }) {
  const done = useDone();
  const now = account.limits;
  const [typed, setTyped] = useState({
    requests_per_minute: String(now?.requests_per_minute ?? 0),
    concurrent_requests: String(now?.concurrent_requests ?? 0),
    day_cap_usd: now?.day_cap_usd ?? '',
    month_cap_usd: now?.month_cap_usd ?? '',
  });
  return (
    <Act
      label="Set limits"
      title="Replace the account’s limits?"
      permission={needs['PUT /api/v1/admin/accounts/{account_id}/limits']}
      facts={[
        ['To whom', account.name || account.account_id],
        ['Second person', 'none is needed'],
      ]}
      params={[...fields.map(([name]) => name), ...fields.map(([name]) => `limits.${name}`)]}
      fields={(form) => (
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          {fields.map(([name, label, note]) => (
            <TextInput
              key={name}
              label={label}
              description={note}
              value={typed[name]}
              onChange={(event) => setTyped({ ...typed, [name]: event.currentTarget.value.trim() })}
              error={form.of(name) ?? form.of(`limits.${name}`)}
              inputMode="decimal"
              autoComplete="off"
            />
          ))}
        </SimpleGrid>
      )}
      run={() => {
        const body = {
          requests_per_minute: wholeOf(typed.requests_per_minute, 'requests_per_minute'),
          concurrent_requests: wholeOf(typed.concurrent_requests, 'concurrent_requests'),
          day_cap_usd: capOf(typed.day_cap_usd, 'day_cap_usd'),
          month_cap_usd: capOf(typed.month_cap_usd, 'month_cap_usd'),
        };
        return answer(
          api.PUT('/api/v1/admin/accounts/{account_id}/limits', {
            params: { path: { account_id: account.account_id } },
            body,
          }),
        );
      }}
      done={() => done('The limits are set.')}
    >
      All four are replaced, and count from the next request on. Requests under way finish. The route takes no reason;
      the audit log names you.
    </Act>
  );
}

/** A whole number from -1 on; throws the error of its field for another text. */
export function wholeOf(text: string, param: string, least = -1): number {
  const value = /^-?\d{1,15}$/.test(text) ? Number(text) : NaN;
  if (!(value >= least))
    throw new ApiError(`A whole number from ${least} on.`, { status: 400, code: 'invalid_value', param });
  return value;
}

function capOf(text: string, param: string): string {
  const value = text === '' ? 0n : nano(text);
  if (value === null || value < 0n)
    throw new ApiError('Dollars from 0 to 1,000,000, or none.', { status: 400, code: 'invalid_value', param });
  return text;
}
