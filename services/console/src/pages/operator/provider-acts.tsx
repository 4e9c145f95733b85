// What operators do for a provider or to it: keys, addresses, warm-ups and benchmarks.

import { Checkbox, Group, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act, RoleNote } from './act';
import { needs } from './allowed';
import { useDone } from './lists';
import type { Provider } from './provider-words';
import { Secret } from './secret';

type ProviderKey = Schemas['ProviderKey'];

const keyColumns: Column<ProviderKey>[] = [
  { name: 'Name', cell: (key) => <span className="breakable">{key.name === '' ? 'without a name' : key.name}</span> },
  { name: 'Begins with', cell: (key) => key.key_prefix },
  {
    name: 'State',
    cell: (key) => {
      if (!key.active) return <State tone="neutral">{key.revoked_at === null ? 'ended' : 'revoked'}</State>;
      return key.expires_at === null ? <State tone="good">good</State> : <State tone="warning">good, and ends</State>;
    },
  },
  { name: 'Made', cell: (key) => <Moment at={key.created_at} /> },
  { name: 'Last connected', cell: (key) => <Moment at={key.last_used_at} withAge /> },
  { name: 'Ends', cell: (key) => <Moment at={key.revoked_at ?? key.expires_at} /> },
  { name: 'Id', cell: (key) => <Id value={key.key_id} what="key id" /> },
  { name: 'End it', cell: (key) => (key.revoked_at === null ? <RevokeKey of={key} /> : '–') },
];

/** The keys of a provider, without their secrets. Makes one, and ends one. */
export function Keys({ provider }: { provider: Provider }) {
  const permission = needs['POST /api/v1/admin/providers/{provider_id}/keys'];
  const [made, setMade] = useState<Schemas['IssueProviderKeyResponse'] | null>(null);
  const id = provider.provider_id;
  const query = useQuery({
    queryKey: ['admin', 'provider-keys', id],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/providers/{provider_id}/keys', { params: { path: { provider_id: id } } })),
  });
  return (
    <Section
      title="Provider keys"
      json={query.data}
      note="Keys that ended stay in the list for 35 days. Last connected: when an agent last began a connection with the key, or somebody called with it, exact to ten minutes. A connection may go on for weeks."
    >
      <RoleNote permission={permission} />
      <Group mb="sm">
        <MakeKey provider={provider} onMade={setMade} />
      </Group>
      {made !== null && <Secret what="Provider key" secret={made.api_key} id={made.key_id} />}
      <Loaded query={query}>
        {(data) => (
          <DataTable
            caption="Provider keys, the good ones first"
            columns={keyColumns}
            rows={data.keys}
            id={(key) => key.key_id}
            empty={provider.vendor ? 'A vendor has no keys: hubs call its server.' : 'There is no key.'}
          />
        )}
      </Loaded>
    </Section>
  );
}

function MakeKey({
  provider,
  onMade,
}: {
  provider: Provider;
  onMade: (made: Schemas['IssueProviderKeyResponse']) => void;
}) {
  const done = useDone();
  const [name, setName] = useState('');
  return (
    <Act
      label="Make a key"
      title="Make a key for this provider?"
      permission={needs['POST /api/v1/admin/providers/{provider_id}/keys']}
      blocked={provider.vendor ? 'A vendor has no keys: hubs call its server.' : ''}
      facts={[
        ['For whom', provider.name || provider.provider_id],
        ['Second person', 'none is needed'],
      ]}
      params={['name']}
      fields={(form) => (
        <TextInput
          label="Name of the key"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={form.of('name')}
        />
      )}
      run={() =>
        answer(
          api.POST('/api/v1/admin/providers/{provider_id}/keys', {
            params: { path: { provider_id: provider.provider_id } },
            body: { name },
          }),
        )
      }
      done={(made) => {
        onMade(made);
        done('The key is made.');
      }}
    >
      Whoever has the key connects machines as this provider. It is shown once. Should the answer be lost, revoke the
      key in the list and make another.
    </Act>
  );
}

function RevokeKey({ of: key }: { of: ProviderKey }) {
  const done = useDone();
  return (
    <Act
      label="Revoke"
      title="Revoke this provider key?"
      permission={needs['DELETE /api/v1/admin/provider-keys/{key_id}']}
      destructive
      facts={[
        ['Key', `${key.name === '' ? 'without a name' : key.name}, ${key.key_prefix}…`],
        ['Second person', 'none is needed'],
      ]}
      run={() =>
        answer(api.DELETE('/api/v1/admin/provider-keys/{key_id}', { params: { path: { key_id: key.key_id } } }))
      }
      done={() => done('The key is revoked.')}
    >
      The key ends for ever, and the connections made with it close at once. Requests under way finish and are paid. An
      address that the key proposed lapses.
    </Act>
  );
}

/** Takes away what a thief of a key may have bound. */
export function Unbind({ provider }: { provider: Provider }) {
  const done = useDone();
  const [what, setWhat] = useState({ wallet: false, beneficiary: false, proposals: true });
  const set = (change: Partial<typeof what>) => setWhat((before) => ({ ...before, ...change }));
  const none = !what.wallet && !what.beneficiary && !what.proposals;
  return (
    <Act
      label="Unbind"
      title="Take away what a thief may have bound?"
      permission={needs['POST /api/v1/admin/providers/{provider_id}/unbind']}
      destructive
      facts={[
        ['To whom', provider.name || provider.provider_id],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in at most 200 characters, for the audit."
      fields={() => (
        <Stack gap="xs">
          <Checkbox
            label="The owner’s wallet"
            description="It cannot sign in or move earnings any more. Its connections end."
            checked={what.wallet}
            onChange={(event) => set({ wallet: event.currentTarget.checked })}
          />
          <Checkbox
            label="Where earnings go"
            description="Earnings go nowhere until an address takes effect again."
            checked={what.beneficiary}
            onChange={(event) => set({ beneficiary: event.currentTarget.checked })}
          />
          <Checkbox
            label="What is proposed"
            description="Proposals that do not count yet are dropped."
            checked={what.proposals}
            onChange={(event) => set({ proposals: event.currentTarget.checked })}
          />
        </Stack>
      )}
      run={({ reason }) => {
        if (none) throw new ApiError('Choose what is taken away.', { status: 400, code: 'invalid_value' });
        const path = { provider_id: provider.provider_id };
        return answer(
          api.POST('/api/v1/admin/providers/{provider_id}/unbind', { params: { path }, body: { ...what, reason } }),
        );
      }}
      done={() => done('It is unbound.')}
    >
      Each has an entry of its own in the history, under your name. Unbinding the wallet or the address drops the
      proposal of its kind, too.
    </Act>
  );
}

/** What one may ask of a model of the provider. */
export function ModelActs({ provider }: { provider: Provider }) {
  const permission = needs['POST /api/v1/admin/warmups'];
  return (
    <Section title="Its models">
      <Stack gap="xs" align="flex-start">
        <Text size="sm" c="var(--muted)">
          Which models it offers, and what the verifier makes of each, is on the verification page.
        </Text>
        <RoleNote permission={permission} />
        <Group>
          <WarmUp provider={provider} />
          <RunBenchmark providerId={provider.provider_id} />
        </Group>
      </Stack>
    </Section>
  );
}

function WarmUp({ provider }: { provider: Provider }) {
  const done = useDone();
  const [model, setModel] = useState('');
  return (
    <Act
      label="Warm up a model"
      title="Ask it to load a model?"
      permission={needs['POST /api/v1/admin/warmups']}
      blocked={provider.online ? '' : 'The provider is not connected.'}
      facts={[
        ['To whom', provider.name || provider.provider_id],
        ['Second person', 'none is needed'],
      ]}
      params={['model_id']}
      fields={(form) => <ModelField value={model} set={setModel} error={form.of('model_id')} />}
      run={() =>
        answer(
          api.POST('/api/v1/admin/warmups', { body: { model_id: named(model), provider_id: provider.provider_id } }),
        )
      }
      done={() => done('The hubs are told. Each machine is asked at most once in five minutes.')}
    >
      Its machines are asked to load the model. Nobody is paid for it. It ends when hubs are told, not when the model is
      loaded.
    </Act>
  );
}

/** Has a model of a provider benchmarked; `modelId` where it is known. */
export function RunBenchmark({ providerId, modelId = '' }: { providerId: string; modelId?: string }) {
  const done = useDone();
  const [typed, setTyped] = useState('');
  const model = modelId === '' ? typed : modelId;
  return (
    <Act
      label="Run a benchmark"
      title="Run a benchmark?"
      permission={needs['POST /api/v1/admin/verification/benchmarks']}
      facts={[
        ['To whom', `provider ${providerId}`],
        ['Model', model === '' ? 'the one that you name' : model],
        ['Second person', 'none is needed'],
      ]}
      params={['model_id']}
      fields={
        modelId === '' ? (form) => <ModelField value={typed} set={setTyped} error={form.of('model_id')} /> : undefined
      }
      run={() =>
        answer(
          api.POST('/api/v1/admin/verification/benchmarks', {
            body: { provider_id: providerId, model_id: named(model) },
          }),
        )
      }
      done={() => done('The benchmark runs.')}
    >
      The model is benchmarked as if its provider had asked. A failure counts as any other: the first warns and takes
      the model from routing, later ones in a row cost collateral. It can run once an hour, while the model is
      connected.
    </Act>
  );
}

function ModelField({ value, set, error }: { value: string; set: (value: string) => void; error: string | undefined }) {
  return (
    <TextInput
      label="Model"
      description="Its id in the catalog."
      value={value}
      onChange={(event) => set(event.currentTarget.value.trim())}
      error={error}
    />
  );
}

function named(model: string): string {
  if (model === '')
    throw new ApiError('Name the model.', { status: 400, code: 'missing_required_parameter', param: 'model_id' });
  return model;
}
