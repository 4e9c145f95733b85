// An operator's review of a provider's application.

import { List, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { Form, useForm } from '../../ui/form';
import { Section } from '../../ui/page';
import { useChanged, type Account } from './queries';

export function Review({ me }: { me: Account }) {
  if (me.status === 'under_review') {
    return (
      <Section title="Review by an operator">
        <Text size="sm">Your application is with the operators. Nothing more is to be done for it.</Text>
      </Section>
    );
  }
  if (me.status !== 'pending' && me.status !== 'rejected') return null;
  return (
    <Section
      title="Review by an operator"
      note={
        <>
          You become active without one. Ask for it if your machine reports no GPU, or after a rejection, 7 days later
          at the earliest.
        </>
      }
    >
      <Stack>
        <List size="sm">
          <List.Item>A review waives neither collateral nor benchmark. An operator may waive the GPU rule.</List.Item>
          <List.Item>Until the decision you stay connected, and cannot become active.</List.Item>
        </List>
        <Ask me={me} />
      </Stack>
    </Section>
  );
}

function Ask({ me }: { me: Account }) {
  const [name, setName] = useState(me.name);
  const [hardware, setHardware] = useState('');
  const [email, setEmail] = useState('');
  const changed = useChanged();
  const form = useForm(
    () =>
      answer(
        api.POST('/api/v1/provider/request-approval', {
          body: { provider_name: name.trim(), hardware_summary: hardware.trim(), contact_email: email.trim() },
        }),
      ),
    () => void changed(),
  );
  return (
    <Form form={form} label="Ask for a review" params={['provider_name', 'hardware_summary', 'contact_email']}>
      <Stack gap="sm" maw={520}>
        <TextInput
          label="Name"
          description="It becomes the account’s name."
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={form.of('provider_name')}
          maxLength={64}
          required
        />
        <Textarea
          label="Hardware"
          description="Machines, GPUs and engines, up to 500 characters."
          value={hardware}
          onChange={(event) => setHardware(event.currentTarget.value)}
          error={form.of('hardware_summary')}
          maxLength={500}
          autosize
          minRows={2}
          required
        />
        <TextInput
          label="E-mail address for questions"
          type="email"
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
          error={form.of('contact_email')}
          maxLength={254}
          autoComplete="email"
          required
        />
      </Stack>
    </Form>
  );
}
