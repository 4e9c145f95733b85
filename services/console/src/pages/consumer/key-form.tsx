// What a user decides about a key: the same fields for a new key and for one that is changed.

import { Anchor, Checkbox, Group, Modal, NativeSelect, Stack, TagsInput, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { usePreferences } from '../../app/preferences';
import type { Zone } from '../../format/time';
import { Form, useForm, type FormState } from '../../ui/form';
import { useModelIds } from './queries';

export interface KeyFields {
  name: string;
  budget: string;
  period: string;
  models: string[];
  /** As an input of date and time has it; empty for never. */
  expires: string;
  includeUsage: boolean;
}

type Settings = Schemas['ConsumerKeySettingsInput'];

const fresh: KeyFields = { name: '', budget: '', period: 'month', models: [], expires: '', includeUsage: false };

/** The fields that a key has now. */
export function fieldsOf(key: Schemas['ConsumerKey'], zone: Zone): KeyFields {
  return {
    name: key.name,
    budget: key.budget?.bound_usd_str ?? '',
    period: key.budget?.period ?? 'month',
    models: key.allowed_model_ids,
    expires: key.expires_at === null ? '' : toInput(key.expires_at, zone),
    includeUsage: key.include_usage,
  };
}

/** What the API takes. What is left out has its default, so all that counts is sent. */
export function settingsOf(fields: KeyFields, zone: Zone): Settings {
  const settings: Settings = {
    name: fields.name.trim(),
    allowed_model_ids: fields.models,
    include_usage: fields.includeUsage,
  };
  const budget = fields.budget.trim();
  if (budget !== '') Object.assign(settings, { budget_usd: budget, budget_period: fields.period });
  if (fields.expires !== '') settings.expires_at = fromInput(fields.expires, zone);
  return settings;
}

export const keyParams = ['name', 'budget_usd', 'budget_period', 'allowed_model_ids', 'expires_at'];

interface KeyInputsProps {
  fields: KeyFields;
  /** The zone of the times in the inputs. */
  zone: Zone;
  onChange: (change: Partial<KeyFields>) => void;
  form: FormState;
}

export function KeyInputs({ fields, zone, onChange, form }: KeyInputsProps) {
  const models = useModelIds();
  return (
    <Stack gap="sm">
      <TextInput
        label="Name"
        description="For you: for example the program that uses it."
        maxLength={64}
        value={fields.name}
        onChange={(event) => onChange({ name: event.currentTarget.value })}
        error={form.of('name')}
      />
      <Group grow align="flex-start">
        <TextInput
          label="Budget in US dollars"
          description="Empty for none; 0 spends nothing."
          inputMode="decimal"
          value={fields.budget}
          onChange={(event) => onChange({ budget: event.currentTarget.value })}
          error={form.of('budget_usd')}
        />
        <NativeSelect
          label="Budget counts"
          description="In UTC; weeks begin on Monday."
          value={fields.period}
          onChange={(event) => onChange({ period: event.currentTarget.value })}
          error={form.of('budget_period')}
          data={[
            { value: 'day', label: 'A day' },
            { value: 'week', label: 'A week' },
            { value: 'month', label: 'A month' },
            { value: 'none', label: 'In all' },
          ]}
        />
      </Group>
      <TagsInput
        label="Allowed models"
        description="Empty allows every model. Choose, or type an id and press Enter."
        data={models}
        limit={20}
        value={fields.models}
        onChange={(value) => onChange({ models: value })}
        error={form.of('allowed_model_ids')}
        clearable
        clearButtonProps={{ 'aria-label': 'Allow every model' }}
      />
      <TextInput
        type="datetime-local"
        label={`Expires (${zone === 'utc' ? 'UTC' : 'local time'})`}
        description="Empty for never."
        value={fields.expires}
        onChange={(event) => onChange({ expires: event.currentTarget.value })}
        error={form.of('expires_at')}
      />
      <Checkbox
        label="Show usage and cost in each answer"
        description="Also where a request does not ask for it. Some programs do not expect it in streams."
        checked={fields.includeUsage}
        onChange={(event) => onChange({ includeUsage: event.currentTarget.checked })}
      />
    </Stack>
  );
}

export function NewKey({
  opened,
  onClose,
  onMade,
}: {
  opened: boolean;
  onClose: () => void;
  onMade: (text: string) => void;
}) {
  return (
    <Modal opened={opened} onClose={onClose} title="Make a key" closeButtonProps={{ 'aria-label': 'Close' }}>
      {opened && <NewKeyForm onMade={onMade} />}
    </Modal>
  );
}

function NewKeyForm({ onMade }: { onMade: (text: string) => void }) {
  const [zone] = useState(usePreferences().zone);
  const [fields, setFields] = useState(fresh);
  const form = useForm(
    () => answer(api.POST('/api/v1/user/me/keys', { body: settingsOf(fields, zone) })),
    (made) => onMade(made.api_key),
  );
  return (
    <Form form={form} label="Make the key" params={keyParams}>
      <KeyInputs
        fields={fields}
        zone={zone}
        onChange={(change) => setFields((now) => ({ ...now, ...change }))}
        form={form}
      />
      {form.error?.code === 'email_not_confirmed' && (
        <Text size="sm">
          <Anchor component={Link} to="/settings" inherit>
            Confirm your e-mail address
          </Anchor>{' '}
          first: until then the account can have one key.
        </Text>
      )}
      {form.error?.status === 0 && (
        <Text size="sm">
          If the connection was lost, look at the list before you try again: the key may have been made.
        </Text>
      )}
    </Form>
  );
}

/** A moment as an input of date and time has it, in a zone. */
function toInput(at: string, zone: Zone): string {
  const date = new Date(at);
  const shifted = zone === 'utc' ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}

/** The inverse; what is no moment goes to the API as it is, which says what is wrong. */
function fromInput(text: string, zone: Zone): string {
  const date = new Date(zone === 'utc' ? `${text}Z` : text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString();
}
