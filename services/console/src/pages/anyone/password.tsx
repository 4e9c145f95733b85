import { Alert, Button, Container, Stack, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'react-router';

import { answer, api } from '../../api/client';
import { getSession, signedOut } from '../../api/session';
import { Form, useForm } from '../../ui/form';
import { Anchor, Page, Section } from '../../ui/page';
import { PasswordInput } from '../../ui/password-input';
import { letterToken } from './account';

/** Asks for a letter, or, by the link of one, sets a new password. */
export default function Password() {
  const token = letterToken(useLocation().hash);
  return (
    <Container size={440} px={0} mx={0} w="100%">
      {token === '' ? <Forgot /> : <Reset token={token} />}
    </Container>
  );
}

function Forgot() {
  const [email, setEmail] = useState('');
  const [sent, setSent] = useState(false);
  const form = useForm(
    () => answer(api.POST('/api/v1/user/password/forgot', { body: { email: email.trim() } })),
    () => setSent(true),
  );
  return (
    <Page title="Forgotten password" lead="A letter to your e-mail address lets you set a new password.">
      {sent && (
        <Alert color="teal" variant="light" title="Look into your mail" role="status">
          <Text size="sm" className="breakable">
            If {email.trim()} has an account, a letter is on its way. Its link counts once, for 30 minutes.
          </Text>
        </Alert>
      )}
      <Section title="Ask for a letter">
        <Form form={form} label="Send the letter" params={['email']}>
          <TextInput
            label="E-mail"
            type="email"
            name="email"
            autoComplete="username"
            required
            withAsterisk={false}
            maxLength={2000}
            value={email}
            error={form.of('email')}
            onChange={(event) => {
              setEmail(event.currentTarget.value);
              setSent(false);
            }}
          />
        </Form>
      </Section>
      <Text size="sm">
        <Anchor component={Link} to="/sign-in" inherit>
          Sign in
        </Anchor>
      </Text>
    </Page>
  );
}

function Reset({ token }: { token: string }) {
  const [password, setPassword] = useState('');
  const [done, setDone] = useState(false);
  const queries = useQueryClient();
  const form = useForm(
    () => answer(api.POST('/api/v1/user/password/reset', { body: { token, new_password: password } })),
    () => {
      setDone(true);
      // All sessions of the user have ended, this page's too.
      if (getSession().kind === 'user') {
        signedOut();
        queries.clear();
      }
    },
  );
  if (done) {
    return (
      <Page title="The password is set" lead="All sessions have ended. Sign in with the new password.">
        <div>
          <Button component={Link} to="/sign-in">
            Sign in
          </Button>
        </div>
      </Page>
    );
  }
  return (
    <Page
      title="New password"
      lead="All sessions end, and all wallets and OpenID accounts are unlinked. API keys keep working."
    >
      <Section title="Set it">
        <Form form={form} label="Set the password" params={['new_password']}>
          <PasswordInput
            label="New password"
            description="At least 8 characters."
            name="new-password"
            autoComplete="new-password"
            required
            withAsterisk={false}
            maxLength={256}
            value={password}
            error={form.of('new_password')}
            onChange={(event) => setPassword(event.currentTarget.value)}
            visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
          />
          {form.error?.code === 'invalid_credentials' && (
            <Stack gap={4}>
              <Text size="sm">The link was used, or is older than 30 minutes.</Text>
              <Anchor component={Link} to="/password" size="sm">
                Ask for another letter
              </Anchor>
            </Stack>
          )}
        </Form>
      </Section>
    </Page>
  );
}
