// A vendor with its server: made, and changed.

import { Select, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import type { FormState } from '../../ui/form';
import { PasswordInput } from '../../ui/password-input';
import { Act } from './act';
import { useDone } from './lists';
import { useSteadyKey } from './steady-key';
import type { Vendor } from './vendor-data';
import { emptyModel, inputOf, ModelRows, rowOf, type ModelRow } from './vendor-models';

interface Draft {
  name: string;
  base_url: string;
  api_key: string;
  models: ModelRow[];
}

const params = ['name', 'base_url', 'api_key', 'models', 'reason'];

export function CreateVendor() {
  const done = useDone();
  const keys = useSteadyKey();
  const [draft, setDraft] = useState<Draft>(blank);
  return (
    <Act
      label="Create a vendor"
      title="Create a vendor?"
      permission="run"
      size="sm"
      facts={[['Second person', 'None is needed']]}
      params={params}
      fields={(form) => (
        <>
          <ServerFields form={form} draft={draft} onChange={setDraft} />
          <PasswordInput
            label="Key of the vendor"
            description="8 to 512 characters; empty where the server asks for none. It is kept encrypted and shown to nobody."
            autoComplete="off"
            value={draft.api_key}
            onChange={(event) => setDraft({ ...draft, api_key: event.currentTarget.value })}
            error={form.of('api_key')}
          />
          <ModelRows
            rows={draft.models}
            onChange={(models) => setDraft({ ...draft, models })}
            error={form.of('models')}
          />
        </>
      )}
      run={() =>
        answer(
          api.POST('/api/v1/admin/vendors', {
            body: {
              name: draft.name.trim(),
              base_url: draft.base_url.trim(),
              api_key: draft.api_key,
              models: draft.models.map(inputOf),
              idempotency_key: keys.of(JSON.stringify(draft)),
            },
          }),
        )
      }
      done={() => {
        setDraft(blank());
        keys.clear();
        done('The vendor is created.');
      }}
    >
      A hub probes the server within seconds. Once it is healthy, consumers&apos; requests for these models go there,
      and each one adds its cost to what the vendor is owed.
    </Act>
  );
}

function blank(): Draft {
  return { name: '', base_url: '', api_key: '', models: [emptyModel()] };
}

type KeyChoice = 'keep' | 'new' | 'remove';

export function EditVendor({ vendor }: { vendor: Vendor }) {
  const done = useDone();
  const [draft, setDraft] = useState<Draft>(() => draftOf(vendor));
  const [choice, setChoice] = useState<KeyChoice>('keep');
  const [reason, setReason] = useState('');
  return (
    <Act
      label="Change"
      title={`Change ${vendor.name}?`}
      permission="run"
      facts={[
        ['Vendor', vendor.name],
        ['Second person', 'None is needed'],
      ]}
      params={params}
      fields={(form) => (
        <>
          <ServerFields form={form} draft={draft} onChange={setDraft} />
          <KeyField
            form={form}
            choice={choice}
            onChoice={setChoice}
            value={draft.api_key}
            onChange={(api_key) => setDraft({ ...draft, api_key })}
          />
          <ModelRows
            rows={draft.models}
            onChange={(models) => setDraft({ ...draft, models })}
            error={form.of('models')}
          />
          <TextInput
            label="Reason"
            description="For the history. At most 150 characters."
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            error={form.of('reason')}
          />
        </>
      )}
      run={() =>
        answer(
          api.PATCH('/api/v1/admin/vendors/{provider_id}', {
            params: { path: { provider_id: vendor.provider_id } },
            body: changes(vendor, draft, choice, reason.trim()),
          }),
        )
      }
      done={() => {
        setChoice('keep');
        done(`${vendor.name} is changed.`);
      }}
    >
      New requests go by the new settings. Requests under way end as they began. A key belongs to scheme, host and port:
      where one of them changes, give the key anew or remove it.
    </Act>
  );
}

function draftOf(vendor: Vendor): Draft {
  const models = vendor.endpoint?.models.map(rowOf) ?? [];
  return { name: vendor.name, base_url: vendor.endpoint?.base_url ?? '', api_key: '', models };
}

/** What differs from the vendor as it stands. */
function changes(vendor: Vendor, draft: Draft, choice: KeyChoice, reason: string) {
  const before = draftOf(vendor);
  const sameModels = JSON.stringify(before.models.map(inputOf)) === JSON.stringify(draft.models.map(inputOf));
  return {
    reason,
    ...(draft.name.trim() === before.name ? {} : { name: draft.name.trim() }),
    ...(draft.base_url.trim() === before.base_url ? {} : { base_url: draft.base_url.trim() }),
    ...(choice === 'keep' ? {} : { api_key: choice === 'new' ? draft.api_key : '' }),
    ...(sameModels ? {} : { models: draft.models.map(inputOf) }),
  };
}

function ServerFields({ form, draft, onChange }: { form: FormState; draft: Draft; onChange: (draft: Draft) => void }) {
  return (
    <>
      <TextInput
        label="Name"
        description="1 to 64 characters. Consumers read it in the header X-Svc-Provider-Name."
        value={draft.name}
        onChange={(event) => onChange({ ...draft, name: event.currentTarget.value })}
        error={form.of('name')}
        data-autofocus
      />
      <TextInput
        label="Base URL"
        description="Above /models and /chat/completions, without a slash at its end. https only."
        inputMode="url"
        value={draft.base_url}
        onChange={(event) => onChange({ ...draft, base_url: event.currentTarget.value })}
        error={form.of('base_url')}
      />
    </>
  );
}

interface KeyFieldProps {
  form: FormState;
  choice: KeyChoice;
  onChoice: (choice: KeyChoice) => void;
  value: string;
  onChange: (value: string) => void;
}

function KeyField({ form, choice, onChoice, value, onChange }: KeyFieldProps) {
  return (
    <>
      <Select
        label="Key of the vendor"
        value={choice}
        onChange={(next) => onChoice(next === 'new' || next === 'remove' ? next : 'keep')}
        allowDeselect={false}
        data={[
          { value: 'keep', label: 'Keep it' },
          { value: 'new', label: 'Give a new one' },
          { value: 'remove', label: 'Remove it' },
        ]}
        error={choice === 'new' ? undefined : form.of('api_key')}
      />
      {choice === 'new' && (
        <PasswordInput
          label="New key"
          description="8 to 512 characters. It is kept encrypted and shown to nobody."
          autoComplete="off"
          value={value}
          onChange={(event) => onChange(event.currentTarget.value)}
          error={form.of('api_key')}
        />
      )}
    </>
  );
}
