import { Anchor, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { Form, useForm } from '../../ui/form';
import { Section } from '../../ui/page';
import { PasswordInput } from '../../ui/password-input';
import { sessionsKey } from './settings-sessions';

const shortest = 8;
const longest = 256;

export function Password({ email }: { email: string }) {
  const queries = useQueryClient();
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const [done, setDone] = useState(false);
  const form = useForm(
    () => answer(api.POST('/api/v1/user/me/password', { body: { current_password: current, new_password: next } })),
    () => {
      setCurrent('');
      setNext('');
      setDone(true);
      void queries.invalidateQueries({ queryKey: sessionsKey });
    },
  );
  return (
    <Section title="Password" note="A change ends all your other sessions. Keys go on working.">
      <Form
        form={form}
        label="Change the password"
        params={['current_password', 'new_password']}
        secondary={
          <Text size="sm" role="status">
            {done && !form.busy && next === '' ? 'Your password was changed.' : ''}
          </Text>
        }
      >
        <input type="text" name="username" autoComplete="username" value={email} readOnly hidden />
        <PasswordInput
          label="Present password"
          autoComplete="current-password"
          maw={360}
          maxLength={longest}
          value={current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
          error={form.of('current_password')}
          visibilityToggleButtonProps={{ 'aria-label': 'Show or hide the present password' }}
        />
        <PasswordInput
          label="New password"
          description={`${shortest} to ${longest} characters.`}
          autoComplete="new-password"
          maw={360}
          maxLength={longest}
          value={next}
          onChange={(event) => setNext(event.currentTarget.value)}
          error={form.of('new_password')}
          visibilityToggleButtonProps={{ 'aria-label': 'Show or hide the new password' }}
        />
        <Text size="sm">
          You have none, or do not know it?{' '}
          <Anchor component={Link} to="/password" inherit>
            Have a letter set one
          </Anchor>
          .
        </Text>
      </Form>
    </Section>
  );
}
