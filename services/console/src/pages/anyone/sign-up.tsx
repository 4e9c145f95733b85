import { Button, Container, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link, useLocation } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { useSession } from '../../app/session';
import { Form, useForm } from '../../ui/form';
import { Anchor, Empty, Page, Section } from '../../ui/page';
import { PasswordInput } from '../../ui/password-input';
import { useEnter, useFrom } from './account';
import { KeyOnce } from './key-once';

type NewSession = Schemas['NewSession'];

export default function SignUp() {
  const session = useSession();
  const from = useFrom();
  const { state } = useLocation();
  const enter = useEnter();
  const [opened, setOpened] = useState<NewSession | null>(null);

  if (opened !== null) return <KeyOnce apiKey={opened.api_key} email={opened.user.email} next={from} />;
  if (session.kind === 'user') {
    return (
      <Page title="Sign up">
        <Section title="You are signed in">
          <Empty
            action={
              <Button component={Link} to="/overview">
                Overview
              </Button>
            }
          >
            You have an account already. Sign out to open another.
          </Empty>
        </Section>
      </Page>
    );
  }
  return (
    <Container size={440} px={0} mx={0} w="100%">
      <Page title="Sign up" lead="You get an account and its first key. Nothing is charged until you add credit.">
        <Open
          take={(next) => {
            setOpened(next);
            enter(next);
          }}
        />
        <Text size="sm">
          You have an account?{' '}
          <Anchor component={Link} to="/sign-in" state={state} inherit underline="always">
            Sign in
          </Anchor>
          .
        </Text>
      </Page>
    </Container>
  );
}

function Open({ take }: { take: (session: NewSession) => void }) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [name, setName] = useState('');
  const form = useForm(() => {
    const body = { email: email.trim(), password, ...(name.trim() === '' ? {} : { display_name: name.trim() }) };
    return answer(api.POST('/api/v1/user/signup', { body }));
  }, take);
  return (
    <Section title="New account">
      <Form form={form} label="Sign up" params={['email', 'password', 'display_name']}>
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
          description="At least 8 characters. A long one that you use nowhere else is best."
          name="password"
          autoComplete="new-password"
          required
          withAsterisk={false}
          maxLength={256}
          value={password}
          error={form.of('password')}
          onChange={(event) => setPassword(event.currentTarget.value)}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
        />
        <TextInput
          label="Name"
          description="How these pages call you. You may leave it empty."
          name="name"
          autoComplete="name"
          maxLength={256}
          value={name}
          error={form.of('display_name')}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        {form.error?.code === 'already_exists' && (
          <Anchor component={Link} to="/password" size="sm">
            I forgot my password
          </Anchor>
        )}
      </Form>
    </Section>
  );
}
