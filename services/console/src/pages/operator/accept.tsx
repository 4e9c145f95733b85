// An invited operator chooses a password, takes the secret of its codes into an authenticator, and shows a first code.

import { Alert, Button, Container, Group, Stack, Text, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { Link, useLocation } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { Form, useForm } from '../../ui/form';
import { Page, Section } from '../../ui/page';
import { PasswordInput } from '../../ui/password-input';
import { QrCode } from '../../ui/qr';
import { Facts } from '../../ui/table';
import { Id, Moment } from '../../ui/text';
import { CodeInput } from './code-input';

type Accepted = Schemas['AcceptInvitationResponse'];

export default function Accept() {
  const [accepted, setAccepted] = useState<Accepted>();
  const [name, setName] = useState('');
  return (
    <Container size="sm" px={0}>
      <Page
        title="Accept an invitation"
        lead="Choose a password, scan a code with an authenticator, and show that it works. This takes a minute."
      >
        {name !== '' ? (
          <Ready name={name} />
        ) : accepted === undefined ? (
          <Section title="1. Password">
            <PasswordForm onAccepted={setAccepted} />
          </Section>
        ) : (
          <Section title="2. Codes">
            <Confirmation accepted={accepted} onReady={setName} />
          </Section>
        )}
      </Page>
    </Container>
  );
}

const least = 12;

function PasswordForm({ onAccepted }: { onAccepted: (accepted: Accepted) => void }) {
  const { hash } = useLocation();
  const [invitation, setInvitation] = useState(hash.replace(/^#/, ''));
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  const [checked, setChecked] = useState(false);
  const form = useForm(
    () => answer(api.POST('/api/v1/admin/operators/accept', { body: { invitation: invitation.trim(), password } })),
    onAccepted,
  );
  const short = [...password].length < least ? `A password has at least ${least} characters.` : undefined;
  const differs = again !== password ? 'The two passwords differ.' : undefined;
  const guarded = {
    ...form,
    onSubmit: (event?: Parameters<typeof form.onSubmit>[0]) => {
      event?.preventDefault();
      setChecked(true);
      // An invitation is accepted once, so a slip of the pen must not become the password.
      if (short === undefined && differs === undefined) form.onSubmit();
    },
  };
  return (
    <Form form={guarded} label="Choose this password" params={['invitation', 'password']}>
      <TextInput
        label="Invitation"
        description="An admin handed it to you. It is good for a day and once."
        autoComplete="off"
        spellCheck={false}
        value={invitation}
        onChange={(event) => setInvitation(event.currentTarget.value)}
        error={form.of('invitation')}
      />
      <PasswordInput
        label="Password"
        description="12 to 256 characters"
        autoComplete="new-password"
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
        error={form.of('password') ?? (checked ? short : undefined)}
        visibilityToggleButtonProps={{ 'aria-label': 'Show or hide the password' }}
      />
      <PasswordInput
        label="Password once more"
        autoComplete="new-password"
        value={again}
        onChange={(event) => setAgain(event.currentTarget.value)}
        error={checked ? differs : undefined}
        visibilityToggleButtonProps={{ 'aria-label': 'Show or hide the repeated password' }}
      />
      <Text size="sm" c="var(--muted)">
        The next step shows the secret of your codes once. If the connection breaks there, ask an admin to reset you.
      </Text>
    </Form>
  );
}

function Confirmation({ accepted, onReady }: { accepted: Accepted; onReady: (name: string) => void }) {
  const [code, setCode] = useState('');
  const form = useForm(
    () => answer(api.POST('/api/v1/admin/operators/confirm', { body: { confirmation: accepted.confirmation, code } })),
    (answered) => onReady(answered.operator?.name ?? accepted.operator?.name ?? 'operator'),
  );
  useLeaveWarning();
  return (
    <Stack>
      <Alert color="gray" variant="light" title="Shown this once">
        Do not leave this page before a code is accepted. Nobody can show you the secret again.
      </Alert>
      <Group align="flex-start" gap="lg">
        <QrCode
          text={accepted.totp_uri}
          label="QR code of the secret for an authenticator. The secret stands beside it as text."
        />
        <Stack gap="xs" flex={1} miw={240}>
          <Text size="sm">
            Scan the code with an authenticator. One that cannot scan takes the secret as text: time based, six digits.
          </Text>
          <Facts
            facts={[
              ['Your name', accepted.operator?.name ?? '–'],
              ['Your role', accepted.operator?.role ?? '–'],
              ['Secret', <Id key="secret" value={accepted.totp_secret} what="secret" full />],
              ['Show a code until', <Moment key="until" at={accepted.expires_at} withAge />],
            ]}
          />
        </Stack>
      </Group>
      <Form form={form} label="Confirm the first code" params={['code']}>
        <CodeInput value={code} onChange={setCode} error={form.of('code')} />
      </Form>
    </Stack>
  );
}

/** Has the browser ask before it leaves a page that shows what is shown once. */
function useLeaveWarning() {
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', warn);
    return () => window.removeEventListener('beforeunload', warn);
  }, []);
}

function Ready({ name }: { name: string }) {
  return (
    <Section title="You are an operator">
      <Stack align="flex-start" role="status">
        <Text>
          {name} is active. Sign in with your name, your password and the next code. You may approve payouts and pay
          vendors from 24 hours after now.
        </Text>
        <Button component={Link} to="/sign-in">
          Sign in
        </Button>
      </Stack>
    </Section>
  );
}
