// The keys of an account. Nobody has their text; an operator makes one for an account without a user.

import { Group, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import type { Account } from './account';
import { Act } from './act';
import { needs } from './allowed';
import { useDone } from './lists';
import { Secret } from './secret';

type Key = Schemas['ConsumerKey'];

export function AccountKeys({ account, keys }: { account: Account; keys: Key[] }) {
  const [made, setMade] = useState<Schemas['IssueKeyResponse'] | null>(null);
  return (
    <Section
      title="Keys"
      json={keys}
      note="The last 100, the newest first. A key is known by its first 12 characters."
      actions={<MakeKey account={account} onMade={setMade} />}
    >
      <DataTable
        caption="Keys of the account"
        columns={columns}
        rows={keys}
        id={(key) => key.key_id}
        empty="The account has no key. Its user makes one, or you do."
      />
      {made !== null && <Secret what="Consumer key" secret={made.api_key} id={made.key_id} />}
    </Section>
  );
}

const columns: Column<Key>[] = [
  { name: 'Key', cell: (key) => <Name name={key} /> },
  { name: 'State', cell: (key) => <State tone={key.state === 'active' ? 'good' : 'neutral'}>{key.state}</State> },
  { name: 'Models', cell: (key) => <span className="breakable">{key.allowed_model_ids.join(', ') || 'all'}</span> },
  { name: 'Made', cell: (key) => <Moment at={key.created_at} /> },
  { name: 'Expires', cell: (key) => <Moment at={key.expires_at} /> },
  { name: 'Last used', cell: (key) => <Moment at={key.last_used_at} withAge /> },
  { name: 'Budget', numeric: true, cell: (key) => <Budget bound={key.budget} /> },
  { name: 'Act', cell: (key) => (key.state === 'revoked' ? '–' : <Revoke subject={key} />) },
];

function Name({ name: key }: { name: Key }) {
  return (
    <Group gap={4}>
      <span className="breakable">{key.name || 'no name'}</span>
      <Id value={key.key_prefix} what="key prefix" />
      <Id value={key.key_id} what="key id" />
    </Group>
  );
}

function Budget({ bound }: { bound: Schemas['SpendBound'] | null }) {
  if (bound === null) return <>none</>;
  return (
    <>
      <Money usd={bound.spent_usd_str} /> of <Money usd={bound.bound_usd_str} />
      {bound.period === 'none' ? '' : ` a ${bound.period}`}
    </>
  );
}

function Revoke({ subject }: { subject: Key }) {
  const done = useDone();
  return (
    <Act
      label="Revoke"
      title="Revoke the key?"
      permission={needs['DELETE /api/v1/admin/keys/{key_id}']}
      destructive
      facts={[
        ['Key', `${subject.key_prefix}… ${subject.name}`],
        ['Second person', 'none is needed'],
      ]}
      run={() => answer(api.DELETE('/api/v1/admin/keys/{key_id}', { params: { path: { key_id: subject.key_id } } }))}
      done={() => done('The key is revoked.')}
    >
      The key ends for ever: requests with it are refused from now on. Those under way finish and are charged. The
      account’s other keys go on.
    </Act>
  );
}

function MakeKey({ account, onMade }: { account: Account; onMade: (made: Schemas['IssueKeyResponse']) => void }) {
  const done = useDone();
  const [name, setName] = useState('');
  const [models, setModels] = useState('');
  const [expires, setExpires] = useState('');
  return (
    <Act
      label="Make a key"
      title="Make a key for this account?"
      permission={needs['POST /api/v1/admin/accounts/{account_id}/keys']}
      facts={[
        ['For whom', account.name || account.account_id],
        ['Second person', 'none is needed'],
      ]}
      params={['name', 'allowed_model_ids', 'expires_at']}
      fields={(form) => (
        <>
          <TextInput
            label="Name of the key"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={form.of('name')}
          />
          <Textarea
            label="Models"
            description="Ids between spaces or lines, at most 100. Empty allows every model."
            value={models}
            onChange={(event) => setModels(event.currentTarget.value)}
            error={form.of('allowed_model_ids')}
            autosize
            minRows={1}
            maxRows={6}
          />
          <TextInput
            type="datetime-local"
            label="Expires (UTC)"
            description="Empty for a key that does not expire."
            value={expires}
            onChange={(event) => setExpires(event.currentTarget.value)}
            error={form.of('expires_at')}
          />
        </>
      )}
      run={() => {
        const body = {
          name,
          allowed_model_ids: models.split(/[\s,]+/).filter((id) => id !== ''),
          expires_at: expires === '' ? null : new Date(`${expires}Z`).toISOString(),
        };
        return answer(
          api.POST('/api/v1/admin/accounts/{account_id}/keys', {
            params: { path: { account_id: account.account_id } },
            body,
          }),
        );
      }}
      done={(made) => {
        onMade(made);
        done('The key is made.');
      }}
    >
      Whoever has the key spends the account’s credit. It is shown once. Should the answer be lost, revoke the key in
      the list and make another.
    </Act>
  );
}
