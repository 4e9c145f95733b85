// Operators sign in by name, password and a code of their authenticator.

import { Container, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link, Navigate, useLocation } from 'react-router';

import { answer, api } from '../../api/client';
import { operatorSignedIn } from '../../api/session';
import { useSession } from '../../app/session';
import { Form, useForm } from '../../ui/form';
import { Anchor, Page, Section } from '../../ui/page';
import { PasswordInput } from '../../ui/password-input';
import { CodeInput } from './code-input';

export default function SignIn() {
  const session = useSession();
  const location = useLocation();
  if (session.kind === 'operator') return <Navigate to={cameFrom(location.state)} replace />;
  return (
    <Container size="xs" px={0}>
      <Page
        title="Sign in as an operator"
        lead="A session lasts 12 hours, and ends earlier after 30 minutes without use."
      >
        <Section title="Name, password and code">
          <SignInForm />
        </Section>
      </Page>
    </Container>
  );
}

function SignInForm() {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const form = useForm(async () => {
    try {
      return await answer(api.POST('/api/v1/admin/session', { body: { name: name.trim(), password, code } }));
    } finally {
      setCode(''); // a code counts once, also where another field is wrong
    }
  }, operatorSignedIn);
  return (
    <Form
      form={form}
      label="Sign in"
      params={['name', 'password', 'code']}
      secondary={
        <Anchor component={Link} to="/accept" size="sm" underline="always" mr="auto">
          I have an invitation
        </Anchor>
      }
    >
      <TextInput
        label="Name"
        autoComplete="username"
        autoCapitalize="none"
        spellCheck={false}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={form.of('name')}
      />
      <PasswordInput
        label="Password"
        autoComplete="current-password"
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
        error={form.of('password')}
        visibilityToggleButtonProps={{ 'aria-label': 'Show or hide the password' }}
      />
      <CodeInput value={code} onChange={setCode} error={form.of('code')} />
    </Form>
  );
}

/** The page that asked to sign in first; the first page where none did. */
function cameFrom(state: unknown): string {
  const from = typeof state === 'object' && state !== null && 'from' in state ? state.from : '';
  return typeof from === 'string' && from.startsWith('/') && !from.startsWith('//') ? from : '/';
}
