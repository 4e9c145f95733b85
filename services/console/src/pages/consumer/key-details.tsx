// One key: what it may do, what it has spent, and what can be done with it.

import { Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { usePreferences } from '../../app/preferences';
import { dollars } from '../../format/money';
import { Confirm } from '../../ui/confirm';
import { Form, useForm } from '../../ui/form';
import { JsonView } from '../../ui/json';
import { Loaded } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { usedPercent } from './exact';
import { factIf } from './facts';
import { Gauge } from './gauge';
import { fieldsOf, KeyInputs, keyParams, settingsOf } from './key-form';
import { keysKey } from './queries';
import { keyTones, periodWord } from './words';

type Key = Schemas['ConsumerKey'];

export function KeyDetails({ id, onSecret }: { id: string; onSecret: (text: string) => void }) {
  const key = useQuery({
    queryKey: [...keysKey, 'one', id],
    queryFn: () => answer(api.GET('/api/v1/user/me/keys/{key_id}', { params: { path: { key_id: id } } })),
  });
  return (
    <Loaded query={key}>
      {(data) => (data.key === null ? null : <Details key={data.key.key_id} of={data.key} onSecret={onSecret} />)}
    </Loaded>
  );
}

function Details({ of: key, onSecret }: { of: Key; onSecret: (text: string) => void }) {
  return (
    <Stack>
      <Group gap="xs" justify="space-between">
        <State tone={keyTones[key.state] ?? 'neutral'}>{key.state}</State>
        <JsonView value={key} title={`key ${key.name || key.key_prefix}`} />
      </Group>
      <Facts
        facts={[
          ['Name', <span className="breakable">{key.name || 'Without a name'}</span>],
          ['Id', <Id value={key.key_id} what="key id" />],
          ['Begins with', <code>{key.key_prefix}…</code>],
          ['Made', <Moment at={key.created_at} />],
          ['Last used, to a minute', key.last_used_at === null ? 'Never' : <Moment at={key.last_used_at} withAge />],
          ['Expires', key.expires_at === null ? 'Never' : <Moment at={key.expires_at} withAge />],
          ...factIf(key.revoked_at !== null, 'Revoked', <Moment at={key.revoked_at} />),
          ...factIf(
            key.old_key_prefix !== '',
            `The old text ${key.old_key_prefix}… works until`,
            <Moment at={key.old_works_until} withAge />,
          ),
        ]}
      />
      {key.budget !== null && <BudgetGauge budget={key.budget} />}
      {key.state !== 'revoked' && (
        <>
          <Change of={key} />
          <Group justify="flex-end">
            {key.state === 'active' && <Rotate of={key} onSecret={onSecret} />}
            <Revoke of={key} />
          </Group>
        </>
      )}
    </Stack>
  );
}

function BudgetGauge({ budget }: { budget: Schemas['SpendBound'] }) {
  return (
    <Gauge
      label={`Budget ${periodWord(budget.period)}`}
      percent={usedPercent(budget.spent_usd + budget.held_usd, budget.bound_usd)}
      note={
        <>
          {dollars(budget.held_usd_str)} is held for requests under way, and {dollars(budget.left_usd_str)} is left.{' '}
          {budget.resets_at !== null && (
            <>
              A new window begins <Moment at={budget.resets_at} withAge />.
            </>
          )}
        </>
      }
    >
      {dollars(budget.spent_usd_str)} of {dollars(budget.bound_usd_str)}
    </Gauge>
  );
}

function Change({ of: key }: { of: Key }) {
  const [zone] = useState(usePreferences().zone); // that of the times in the inputs, while the form is open
  const queries = useQueryClient();
  const [before] = useState(() => fieldsOf(key, zone));
  const [fields, setFields] = useState(before);
  const [saved, setSaved] = useState(false);
  const form = useForm(
    () => {
      const body = settingsOf(fields, zone);
      if (fields.expires === before.expires) body.expires_at = key.expires_at; // to the second, which the input has not
      return answer(api.PUT('/api/v1/user/me/keys/{key_id}', { params: { path: { key_id: key.key_id } }, body }));
    },
    () => {
      setSaved(true);
      void queries.invalidateQueries({ queryKey: keysKey });
    },
  );
  return (
    <Form
      form={form}
      label="Save the settings"
      params={keyParams}
      secondary={
        <Text size="sm" role="status">
          {saved && !form.busy ? 'Saved.' : ''}
        </Text>
      }
    >
      <KeyInputs
        zone={zone}
        fields={fields}
        onChange={(change) => {
          setSaved(false);
          setFields((now) => ({ ...now, ...change }));
        }}
        form={form}
      />
    </Form>
  );
}

function Revoke({ of: key }: { of: Key }) {
  const queries = useQueryClient();
  async function act() {
    await answer(api.DELETE('/api/v1/user/me/keys/{key_id}', { params: { path: { key_id: key.key_id } } }));
    await queries.invalidateQueries({ queryKey: keysKey });
  }
  return (
    <Confirm label="Revoke" title={`Revoke the key “${key.name || key.key_prefix}”?`} act={act} destructive size="sm">
      Requests with it are refused from now on, for ever, also with its old text. Requests under way finish and are
      charged. It cannot be undone.
    </Confirm>
  );
}

const hour = 3_600_000;

function Rotate({ of: key, onSecret }: { of: Key; onSecret: (text: string) => void }) {
  const [overlap, setOverlap] = useState('24');
  async function act() {
    const hours = Number(overlap);
    const body = hours === 0 ? {} : { old_works_until: new Date(Date.now() + hours * hour).toISOString() };
    const rotated = await answer(
      api.POST('/api/v1/user/me/keys/{key_id}/rotate', { params: { path: { key_id: key.key_id } }, body }),
    );
    onSecret(rotated.api_key);
  }
  return (
    <Confirm label="Rotate" title={`Give the key “${key.name || key.key_prefix}” another text?`} act={act} size="sm">
      <Stack gap="sm">
        <Text size="sm">
          The key stays the same key, with its settings, budget and limits. Put the new text into your programs before
          the old text ends. If the new text gets lost, rotate again so that the old one ends at once.
        </Text>
        <NativeSelect
          label="The old text works"
          value={overlap}
          onChange={(event) => setOverlap(event.currentTarget.value)}
          data={[
            { value: '0', label: 'No longer: it ends at once' },
            { value: '1', label: '1 more hour' },
            { value: '24', label: '24 more hours' },
            { value: '72', label: '3 more days' },
          ]}
        />
      </Stack>
    </Confirm>
  );
}
