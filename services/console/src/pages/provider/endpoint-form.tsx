// Registers a server, or changes one.

import { Button, Checkbox, Modal, Stack, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { Form, useForm, type FormState } from '../../ui/form';
import { PasswordInput } from '../../ui/password-input';
import { EndpointModels, draftOf, inputOf, newDraft, type Draft } from './endpoint-models';
import { useChanged, type Endpoint } from './queries';

/** What is asked for of a server. An empty key of a change leaves the key, unless it is to be removed. */
interface Answers {
  name: string;
  base: string;
  key: string;
  removeKey: boolean;
  models: Draft[];
}

const params = ['name', 'base_url', 'api_key'];

/** A button with the form behind it: of a new server, or of one that there is. */
export function EndpointForm({ of: endpoint }: { of?: Endpoint }) {
  const [open, { open: show, close }] = useDisclosure(false);
  return (
    <>
      <Button size="xs" variant={endpoint === undefined ? 'filled' : 'default'} onClick={show}>
        {endpoint === undefined ? 'Register a server' : 'Change'}
      </Button>
      <Modal
        opened={open}
        onClose={close}
        size="lg"
        title={endpoint === undefined ? 'Register a server' : `Change “${endpoint.name}”`}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <Fields endpoint={endpoint} done={close} />
      </Modal>
    </>
  );
}

function Fields({ endpoint, done }: { endpoint: Endpoint | undefined; done: () => void }) {
  const [answers, setAnswers] = useState<Answers>(() => ({
    name: endpoint?.name ?? '',
    base: endpoint?.base_url ?? '',
    key: '',
    removeKey: false,
    models: endpoint === undefined ? [newDraft()] : endpoint.models.map(draftOf),
  }));
  const changed = useChanged();
  const form = useForm(
    (key) => (endpoint === undefined ? register(answers, key) : change(endpoint, answers)),
    () => {
      void changed();
      done();
    },
  );
  const set = (part: Partial<Answers>) => setAnswers((now) => ({ ...now, ...part }));
  return (
    <Form form={form} label={endpoint === undefined ? 'Register' : 'Save'} params={params}>
      <Stack gap="sm">
        <TextInput
          label="Name"
          description="For you."
          value={answers.name}
          onChange={(event) => set({ name: event.currentTarget.value })}
          error={form.of('name')}
          maxLength={64}
          autoComplete="off"
          required
        />
        <TextInput
          label="Address"
          description={
            <>
              Above /models and /chat/completions, for example https://inference.example.com/v1. It must be https on a
              public host.
            </>
          }
          value={answers.base}
          onChange={(event) => set({ base: event.currentTarget.value })}
          error={form.of('base_url')}
          maxLength={512}
          inputMode="url"
          autoComplete="off"
          spellCheck={false}
          required
        />
        <Key endpoint={endpoint} answers={answers} set={set} form={form} />
        <EndpointModels models={answers.models} onChange={(models) => set({ models })} />
      </Stack>
    </Form>
  );
}

function Key({
  endpoint,
  answers,
  set,
  form,
}: {
  endpoint: Endpoint | undefined;
  answers: Answers;
  set: (part: Partial<Answers>) => void;
  form: FormState;
}) {
  const kept = endpoint?.has_key === true;
  return (
    <>
      <PasswordInput
        label="Key of the server"
        description={
          kept
            ? 'Leave it empty to keep the key. Give it anew if the scheme, host or port of the address changes.'
            : 'Sent as Authorization: Bearer. Leave it empty where the server asks for none. Nobody is shown it later.'
        }
        value={answers.key}
        onChange={(event) => set({ key: event.currentTarget.value })}
        error={form.of('api_key')}
        maxLength={512}
        autoComplete="new-password"
        disabled={answers.removeKey}
        visibilityToggleButtonProps={{ 'aria-label': 'Show the key or hide it' }}
      />
      {kept && (
        <Checkbox
          label="Remove the key"
          checked={answers.removeKey}
          onChange={(event) => set({ removeKey: event.currentTarget.checked })}
        />
      )}
    </>
  );
}

function register(answers: Answers, key: string): Promise<Endpoint> {
  return answer(
    api.POST('/api/v1/provider/external-endpoints', {
      params: { header: { 'Idempotency-Key': key } },
      body: {
        name: answers.name.trim(),
        base_url: answers.base.trim(),
        models: answers.models.map(inputOf),
        ...(answers.key === '' ? {} : { api_key: answers.key }),
      },
    }),
  );
}

/** Only what differs is sent: what is left out stays. */
function change(endpoint: Endpoint, answers: Answers): Promise<Endpoint> {
  const models: Schemas['ProviderEndpointModelInput'][] = answers.models.map(inputOf);
  const same = JSON.stringify(models) === JSON.stringify(endpoint.models.map(draftOf).map(inputOf));
  return answer(
    api.PATCH('/api/v1/provider/external-endpoints/{endpoint_id}', {
      params: { path: { endpoint_id: endpoint.endpoint_id } },
      body: {
        ...(answers.name.trim() === endpoint.name ? {} : { name: answers.name.trim() }),
        ...(answers.base.trim() === endpoint.base_url ? {} : { base_url: answers.base.trim() }),
        ...(answers.removeKey ? { api_key: '' } : answers.key === '' ? {} : { api_key: answers.key }),
        ...(same ? {} : { models }),
      },
    }),
  );
}
