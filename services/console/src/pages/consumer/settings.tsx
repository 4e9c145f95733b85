import { Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { Form, useForm } from '../../ui/form';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { factIf } from './facts';
import { meKey, useMe } from './queries';
import { BalanceLow } from './settings-balance-low';
import { Identities } from './settings-identities';
import { Password } from './settings-password';
import { Proposals } from './settings-proposals';
import { Sessions } from './settings-sessions';

type User = Schemas['User'];

export default function Settings() {
  const me = useMe();
  return (
    <Page title="Settings" lead="Who you are here, how you sign in, and where you are signed in.">
      <Loaded query={me}>
        {({ user }) =>
          user === null ? (
            <Empty>There is no such user.</Empty>
          ) : (
            <Stack gap="lg">
              <Who user={user} />
              {user.email !== '' && <Password email={user.email} />}
              <Identities user={user} />
              <Sessions />
              <BalanceLow />
              {user.provider_id !== '' && <Proposals />}
            </Stack>
          )
        }
      </Loaded>
    </Page>
  );
}

function Who({ user }: { user: User }) {
  return (
    <Section title="Who you are" json={user}>
      <Stack>
        <Facts
          facts={[
            ['Name', <span className="breakable">{user.display_name || '–'}</span>],
            ['E-mail', <EmailText user={user} />],
            ['User', <Id value={user.user_id} what="user id" />],
            ['Account', <Id value={user.account_id} what="account id" />],
            ...factIf(user.provider_id !== '', 'Provider', <Id value={user.provider_id} what="provider id" />),
            ['Since', <Moment at={user.created_at} />],
          ]}
        />
        {user.email !== '' && !user.email_confirmed && <ConfirmEmail email={user.email} />}
      </Stack>
    </Section>
  );
}

function EmailText({ user }: { user: User }) {
  if (user.email === '')
    return <>None: you sign in with a wallet or at another site. Until the account has paid, it can have one key.</>;
  return (
    <span className="breakable">
      {user.email}{' '}
      <State tone={user.email_confirmed ? 'good' : 'warning'}>
        {user.email_confirmed ? 'Confirmed' : 'Not confirmed'}
      </State>
    </span>
  );
}

function ConfirmEmail({ email }: { email: string }) {
  const queries = useQueryClient();
  const [sent, setSent] = useState(false);
  const form = useForm(
    () => answer(api.POST('/api/v1/user/me/email', { body: {} })),
    () => {
      setSent(true);
      void queries.invalidateQueries({ queryKey: meKey });
    },
  );
  return (
    <Form form={form} label={sent ? 'Send another letter' : 'Send the letter'}>
      <Text size="sm" role="status" className="breakable">
        {sent
          ? `A letter is on its way to ${email}. Its link counts once, for 24 hours.`
          : `The address is not confirmed. A letter to ${email} has a link that confirms it. Until then the account can have one key.`}
      </Text>
    </Form>
  );
}
