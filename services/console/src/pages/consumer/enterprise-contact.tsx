// The form by which an account asks for terms. Who shows it gives the call that takes the message.

import { Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';

import { Form, useForm } from '../../ui/form';

export interface ContactMessage {
  company: string;
  message: string;
}

const maxMessage = 4_000;

export function ContactForm({ send }: { send: (message: ContactMessage, key: string) => Promise<unknown> }) {
  const [company, setCompany] = useState('');
  const [message, setMessage] = useState('');
  const [sent, setSent] = useState(false);
  const form = useForm(
    (key) => send({ company: company.trim(), message: message.trim() }, key),
    () => setSent(true),
  );
  if (sent)
    return <Text role="status">Your message was sent. An operator answers to the e-mail address of your account.</Text>;
  return (
    <Form form={form} label="Send" params={['company', 'message']}>
      <Stack gap="sm">
        <TextInput
          label="Company (may be empty)"
          maxLength={200}
          value={company}
          onChange={(event) => setCompany(event.currentTarget.value)}
          error={form.of('company')}
        />
        <Textarea
          label="What you need"
          description="The models, the requests a minute, and when it begins."
          autosize
          minRows={4}
          maxLength={maxMessage}
          value={message}
          onChange={(event) => setMessage(event.currentTarget.value)}
          error={form.of('message')}
        />
      </Stack>
    </Form>
  );
}
