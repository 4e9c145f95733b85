import { Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { useNow } from '../../app/live';
import { Confirm } from '../../ui/confirm';
import { Form, useForm } from '../../ui/form';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { NewKey } from './new-key';
import { useChanged } from './queries';
import { isAhead } from './words';

type Key = Schemas['ProviderKeys']['keys'][number];

export default function Keys() {
  const keys = useQuery({
    queryKey: ['provider', 'keys'],
    queryFn: () => answer(api.GET('/api/v1/user/me/provider-keys')),
  });
  return (
    <Page
      title="Provider keys"
      lead={
        <>
          Agents connect with a provider key. Give each machine its own, so that you can end one without stopping the
          others. A key reads the account and cannot move money.
        </>
      }
    >
      <Make />
      <Section title="Your keys" json={keys.data} note="Keys that ended stay in the list for 35 days.">
        <Loaded query={keys}>
          {(data) => (
            <DataTable
              caption="Provider keys, the good ones first"
              columns={columns}
              rows={data.keys}
              id={(key) => key.key_id}
              empty="There is no key. Make one above, and give it to your agent."
            />
          )}
        </Loaded>
      </Section>
    </Page>
  );
}

const columns: Column<Key>[] = [
  { name: 'Name', cell: (key) => <span className="breakable">{key.name === '' ? 'without a name' : key.name}</span> },
  { name: 'Begins with', cell: (key) => key.key_prefix },
  { name: 'State', cell: (key) => <KeyState of={key} /> },
  { name: 'Made', cell: (key) => <Moment at={key.created_at} /> },
  { name: 'Last connected', cell: (key) => <Moment at={key.last_used_at} withAge /> },
  {
    name: 'Ends',
    cell: (key) => <Moment at={key.revoked_at ?? key.expires_at} withAge={key.active && key.expires_at !== null} />,
  },
  { name: 'Id', wideOnly: true, cell: (key) => <Id value={key.key_id} what="key id" /> },
  { name: 'End it', cell: (key) => (key.active ? <Revoke of={key} /> : '–') },
];

function KeyState({ of: key }: { of: Key }) {
  const now = useNow();
  if (!key.active) return <State tone="neutral">{key.revoked_at === null ? 'ended' : 'revoked'}</State>;
  return isAhead(key.expires_at, now) ? <State tone="warning">good, and ends</State> : <State tone="good">good</State>;
}

function Revoke({ of: key }: { of: Key }) {
  const changed = useChanged();
  return (
    <Confirm
      label="Revoke"
      title={`Revoke the key ${key.name === '' ? key.key_prefix : `“${key.name}”`}?`}
      destructive
      act={async () => {
        await answer(
          api.DELETE('/api/v1/user/me/provider-keys/{key_id}', { params: { path: { key_id: key.key_id } } }),
        );
        await changed();
      }}
    >
      The key ends for good. Connections that were made with it close once their requests have ended, and the agent that
      has it stops serving until it gets another key. The last good key cannot be revoked: make another one first.
    </Confirm>
  );
}

function Make() {
  const [name, setName] = useState('');
  const [made, setMade] = useState('');
  const changed = useChanged();
  const form = useForm(
    () => answer(api.POST('/api/v1/user/me/provider-keys', { body: { name: name.trim() } })),
    (key) => {
      setMade(key.api_key);
      setName('');
      void changed();
    },
  );
  return (
    <Section title="Make a key">
      <Stack>
        {made !== '' && <NewKey text={made} onKept={() => setMade('')} />}
        <Form form={form} label="Make a key" params={['name']}>
          <TextInput
            label="Name"
            description="For you, for example the machine that gets it."
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={form.of('name')}
            maxLength={64}
            maw={420}
            autoComplete="off"
          />
        </Form>
        <Text size="sm" c="var(--muted)">
          An account has at most 32 good keys.
        </Text>
      </Stack>
    </Section>
  );
}
