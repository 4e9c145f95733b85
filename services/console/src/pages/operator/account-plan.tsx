// The Token Plan of an account, as operators put it on.

import { TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { dollars } from '../../format/money';
import { Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment } from '../../ui/text';
import type { Account } from './account';
import { Act } from './act';
import { needs } from './allowed';
import { useDone } from './lists';

type Counter = Schemas['PlanCounter'];

export function AccountPlan({ account }: { account: Account }) {
  const { plan } = account;
  return (
    <Section
      title="Plan"
      json={plan}
      note={
        plan === null ? (
          'No plan is in force: all requests are paid from credit.'
        ) : (
          <>
            {plan.plan} since <Moment at={plan.from} />,{' '}
            {plan.until === null ? (
              'without an end'
            ) : (
              <>
                until <Moment at={plan.until} withAge />
              </>
            )}
            .
          </>
        )
      }
      actions={
        <>
          <PutOnPlan account={account} />
          {plan !== null && <TakeOffPlan account={account} plan={plan.plan} />}
        </>
      }
    >
      {plan !== null && (
        <DataTable
          caption="What is used of the plan"
          columns={columns}
          rows={plan.counters}
          id={(one) => `${one.kind} ${one.period}`}
          empty="Nothing is used yet."
        />
      )}
    </Section>
  );
}

const columns: Column<Counter>[] = [
  {
    name: 'Limit',
    cell: (one) => `${one.kind.replaceAll('_', ' ')}${one.period === 'none' ? '' : ` a ${one.period}`}`,
  },
  { name: 'Used', numeric: true, cell: (one) => amount(one, one.used) },
  { name: 'Cap', numeric: true, cell: (one) => (one.enabled ? amount(one, one.cap) : `off (${amount(one, one.cap)})`) },
  { name: 'New window', cell: (one) => <Moment at={one.window_end} withAge /> },
];

function amount(counter: Counter, value: number): string {
  return counter.kind === 'list_price' ? dollars(value.toFixed(9)) : value.toLocaleString('en-US');
}

const permission = needs['PUT /api/v1/admin/accounts/{account_id}/plan'];

function put(account: Account, plan: string, until: string | null) {
  const path = { account_id: account.account_id };
  return answer(api.PUT('/api/v1/admin/accounts/{account_id}/plan', { params: { path }, body: { plan, until } }));
}

function PutOnPlan({ account }: { account: Account }) {
  const done = useDone();
  const [plan, setPlan] = useState('pro');
  const [until, setUntil] = useState('');
  return (
    <Act
      label={account.plan === null ? 'Put on a plan' : 'Change the plan'}
      title="Put the account on a plan?"
      permission={permission}
      facts={[
        ['To whom', account.name || account.account_id],
        ['Who pays', 'nobody: no invoice is made, and nothing joins the pool'],
        ['Second person', 'none is needed'],
      ]}
      params={['plan', 'until']}
      fields={(form) => (
        <>
          <TextInput
            label="Plan"
            description="pro is the Token Plan."
            value={plan}
            onChange={(event) => setPlan(event.currentTarget.value.trim())}
            error={form.of('plan')}
          />
          <TextInput
            type="datetime-local"
            label="Until (UTC)"
            description="Empty for no end."
            value={until}
            onChange={(event) => setUntil(event.currentTarget.value)}
            error={form.of('until')}
          />
        </>
      )}
      run={() => {
        if (plan === '') throw new ApiError('Name the plan.', { status: 400, code: 'invalid_value', param: 'plan' });
        return put(account, plan, until === '' ? null : new Date(`${until}Z`).toISOString());
      }}
      done={() => done('The account is on the plan.')}
    >
      It counts from now on. Requests under way stay what they were admitted as. The plan in force with another end
      keeps its beginning and its counters.
    </Act>
  );
}

function TakeOffPlan({ account, plan }: { account: Account; plan: string }) {
  const done = useDone();
  return (
    <Act
      label="Take off the plan"
      title="Take the account off its plan?"
      permission={permission}
      destructive
      facts={[
        ['To whom', account.name || account.account_id],
        ['Plan', plan],
        ['Second person', 'none is needed'],
      ]}
      run={() => put(account, '', null)}
      done={() => done('The account is off its plan.')}
    >
      Its requests are paid from credit from now on. Nothing is refunded by it, and a subscription that the consumer
      bought goes on being billed: refund its invoice to end that.
    </Act>
  );
}
