// Why an account is frozen, and how an operator freezes and opens it.

import { Group, Stack, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import type { Account } from './account';
import { Act, RoleNote } from './act';
import { needs } from './allowed';
import { useDone } from './lists';

type Freeze = Schemas['AccountFreeze'];

export function Freezes({ account, debts }: { account: Account; debts: Schemas['AccountDebt'][] }) {
  const permission = needs['POST /api/v1/admin/accounts/{account_id}/freezes'];
  const id = account.account_id;
  const query = useQuery({
    queryKey: ['admin', 'account', id, 'freezes'],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/accounts/{account_id}/freezes', { params: { path: { account_id: id } } })),
  });
  return (
    <Section
      title="Freezes and debts"
      json={{ ...query.data, debts }}
      note="An account is frozen until no cause is left. A debt is lifted by its payment alone."
      actions={
        <Group gap="xs">
          <FreezeAccount account={account} />
          <OpenAccount account={account} />
        </Group>
      }
    >
      <Stack>
        <RoleNote permission={permission} />
        <Loaded query={query}>
          {({ freezes }) => (
            <DataTable
              caption="Causes that freeze or froze the account, the newest first"
              columns={columns(account)}
              rows={freezes}
              id={(one) => `${one.cause} ${one.ref} ${one.at}`}
              empty="Nothing freezes the account, and nothing ever did."
            />
          )}
        </Loaded>
        {debts.length > 0 && (
          <DataTable
            caption="What the account owes or owed"
            columns={debtColumns}
            rows={debts}
            id={(one) => one.ref}
            empty="It owes nothing."
          />
        )}
      </Stack>
    </Section>
  );
}

function columns(account: Account): Column<Freeze>[] {
  return [
    { name: 'Cause', cell: (one) => one.cause },
    { name: 'In words', cell: (one) => one.text },
    { name: 'About', cell: (one) => <Id value={one.ref} what="reference" /> },
    { name: 'Since', cell: (one) => <Moment at={one.at} withAge /> },
    { name: 'Lifted', cell: (one) => <Moment at={one.lifted_at} /> },
    { name: 'Act', cell: (one) => (one.lifted_at === null ? <Lift account={account} freeze={one} /> : '–') },
  ];
}

const debtColumns: Column<Schemas['AccountDebt']>[] = [
  { name: 'Payment taken back', cell: (one) => <Id value={one.ref} what="reference" /> },
  {
    name: 'State',
    cell: (one) => <State tone={one.state === 'open' || one.state === 'lost' ? 'bad' : 'neutral'}>{one.state}</State>,
  },
  { name: 'Since', cell: (one) => <Moment at={one.at} /> },
  { name: 'Owed', numeric: true, cell: (one) => <Money usd={one.owed_usd_str} /> },
  { name: 'Paid', numeric: true, cell: (one) => <Money usd={one.paid_usd_str} /> },
  { name: 'Left', numeric: true, cell: (one) => <Money usd={one.left_usd_str} /> },
];

function Lift({ account, freeze }: { account: Account; freeze: Freeze }) {
  const done = useDone();
  return (
    <Act
      label="Lift"
      title={`Lift the freeze by ${freeze.cause}?`}
      permission={needs['POST /api/v1/admin/accounts/{account_id}/freezes/lift']}
      blocked={freeze.cause === 'debt' ? 'A debt is lifted by its payment alone.' : ''}
      facts={[
        ['To whom', account.name || account.account_id],
        ['Cause', `${freeze.cause}, ${freeze.ref}`],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in 1 to 200 characters, for the audit."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/accounts/{account_id}/freezes/lift', {
            params: { path: { account_id: account.account_id } },
            body: { cause: freeze.cause, ref: freeze.ref, note: reason },
          }),
        )
      }
      done={() => done('The cause is lifted.')}
    >
      Other causes stand. Once none is left, the account’s requests are served again.
    </Act>
  );
}

function FreezeAccount({ account }: { account: Account }) {
  const done = useDone();
  const [ref, setRef] = useState('');
  return (
    <Act
      label="Freeze"
      title="Freeze the account?"
      permission={needs['POST /api/v1/admin/accounts/{account_id}/freezes']}
      destructive
      facts={[
        ['To whom', account.name || account.account_id],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in 1 to 200 characters, for the audit."
      params={['ref']}
      fields={(form) => (
        <TextInput
          label="About"
          description="What it is about, such as a ticket: at most 80 characters. Freezes about other things stand apart."
          value={ref}
          onChange={(event) => setRef(event.currentTarget.value)}
          error={form.of('ref')}
        />
      )}
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/accounts/{account_id}/freezes', {
            params: { path: { account_id: account.account_id } },
            body: { ref, note: reason },
          }),
        )
      }
      done={() => {
        setRef('');
        done('The account is frozen.');
      }}
    >
      Its requests are refused from now on. Those under way finish and are charged. Its owner sees that an operator
      froze it. Lift the cause to open it again.
    </Act>
  );
}

/** Lifts all causes at once that an operator may lift. */
function OpenAccount({ account }: { account: Account }) {
  const done = useDone();
  if (account.state === 'open') return null;
  return (
    <Act
      label="Lift all"
      title="Lift all that an operator may lift?"
      permission={needs['PUT /api/v1/admin/accounts/{account_id}/state']}
      facts={[
        ['To whom', account.name || account.account_id],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in 1 to 200 characters, for the audit."
      run={({ reason }) =>
        answer(
          api.PUT('/api/v1/admin/accounts/{account_id}/state', {
            params: { path: { account_id: account.account_id } },
            body: { state: 'open', memo: reason },
          }),
        )
      }
      done={() => done('All that an operator may lift is lifted.')}
    >
      What operators froze is lifted, and losses. Disputes and debts stand, and keep the account frozen while one of
      them lasts.
    </Act>
  );
}
