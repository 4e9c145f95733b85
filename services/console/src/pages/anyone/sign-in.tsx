import { Alert, Button, Container, Loader, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { flushSync } from 'react-dom';
import { Link, Navigate, useSearchParams } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { useWallet } from '../../api/wallet';
import { useSession } from '../../app/session';
import { Form, useForm } from '../../ui/form';
import { Anchor, Failure, Page, Section } from '../../ui/page';
import { PasswordInput } from '../../ui/password-input';
import { useEnter, useFrom } from './account';
import { KeyOnce } from './key-once';
import { refusalOf } from './sign-in-refusal';
import { signInWithWallet } from './wallet';

type NewSession = Schemas['NewSession'];
type Methods = Schemas['SignInMethods'];

/** How users sign in here. Until the answer is there, and where none comes, the password alone is offered. */
function useMethods(): Methods | undefined {
  return useQuery({
    queryKey: ['sign-in-methods'],
    queryFn: async () => (await answer(api.GET('/api/v1/user/sign-in-methods'))).data,
    staleTime: 60_000,
  }).data;
}

export default function SignIn() {
  const session = useSession();
  const from = useFrom();
  const enter = useEnter();
  const methods = useMethods();
  const refusal = refusalOf(useSearchParams()[0].get('error'));
  const [opened, setOpened] = useState<NewSession | null>(null);

  function take(next: Schemas['Session'] | NewSession) {
    // The key must be on the page before the session is, because a session leads away from here.
    if ('api_key' in next) flushSync(() => setOpened(next));
    enter(next);
  }

  if (opened !== null) return <KeyOnce apiKey={opened.api_key} email={opened.user.email} next={from} />;
  if (session.kind === 'unknown') return <Loader aria-label="Loading" />;
  if (session.kind === 'user') return refusal === null ? <Navigate to={from} replace /> : <NotLinked why={refusal} />;
  return (
    <Container size={440} px={0} mx={0} w="100%">
      <Page title="Sign in" lead={from === '/overview' ? undefined : 'You come back to where you were.'}>
        {refusal !== null && <Refusal why={refusal} />}
        <Password take={take} letters={methods?.letters !== false} />
        {methods?.wallet === true && <ByWallet take={take} />}
        {methods !== undefined && methods.openid.length > 0 && <ByOpenID providers={methods.openid} />}
        <Text size="sm">
          No account yet?{' '}
          <Anchor component={Link} to="/sign-up" state={{ from }} inherit underline="always">
            Sign up
          </Anchor>
          .
        </Text>
      </Page>
    </Container>
  );
}

function Refusal({ why }: { why: string }) {
  return (
    <Alert color="red" variant="light" title="You are not signed in" role="alert">
      <Text size="sm">{why}</Text>
    </Alert>
  );
}

/** What a user sees who is signed in, and whose link at another site failed. */
function NotLinked({ why }: { why: string }) {
  return (
    <Container size={440} px={0} mx={0} w="100%">
      <Page title="Nothing was linked">
        <Text size="sm" role="alert">
          {why}
        </Text>
        <div>
          <Button component={Link} to="/settings">
            Settings
          </Button>
        </div>
      </Page>
    </Container>
  );
}

function Password({ take, letters }: { take: (session: Schemas['Session']) => void; letters: boolean }) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const form = useForm(() => answer(api.POST('/api/v1/user/login', { body: { email: email.trim(), password } })), take);
  return (
    <Section title="With a password">
      <Form form={form} label="Sign in" params={['email', 'password']}>
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
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          name="password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          maxLength={256}
          value={password}
          error={form.of('password')}
          onChange={(event) => setPassword(event.currentTarget.value)}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
        />
        {letters && (
          <Anchor component={Link} to="/password" size="sm">
            I forgot my password
          </Anchor>
        )}
      </Form>
    </Section>
  );
}

function ByWallet({ take }: { take: (session: Schemas['Session'] | NewSession) => void }) {
  const wallet = useWallet();
  const form = useForm(
    async () => (wallet === null ? null : signInWithWallet(wallet)),
    (session) => {
      if (session !== null) take(session);
    },
  );
  if (wallet === null) return null;
  return (
    <Section
      title="With a wallet"
      note="Your wallet signs a text that names this site. Signing costs nothing and moves nothing. A new wallet opens an account."
    >
      <Stack>
        {form.error !== null && <Failure error={form.error} />}
        <Button variant="default" onClick={() => form.onSubmit()} loading={form.busy}>
          Sign in with the wallet
        </Button>
      </Stack>
    </Section>
  );
}

/** Links and no calls: the browser itself must go to the other site, and comes back with a cookie. */
function ByOpenID({ providers }: { providers: Methods['openid'] }) {
  return (
    <Section title="At another site" note="You sign in there and come back. A new account there opens an account here.">
      <Stack>
        {providers.map(({ name, label }) => (
          <Button
            key={name}
            component="a"
            href={`/api/v1/user/oidc/${encodeURIComponent(name)}/start`}
            variant="default"
          >
            Sign in with {label}
          </Button>
        ))}
      </Stack>
    </Section>
  );
}
