import { Button, Container, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation } from 'react-router';

import { answer, api } from '../../api/client';
import { useSession } from '../../app/session';
import { Form, useForm } from '../../ui/form';
import { Anchor, Page, Section } from '../../ui/page';
import { letterToken } from './account';

/**
 * Confirms an e-mail address by the token of a letter. A button does it and not the opening of the page, because
 * programs that look for dangers in letters open their links.
 */
export default function Confirm() {
  const linked = letterToken(useLocation().hash);
  const session = useSession();
  const queries = useQueryClient();
  const [typed, setTyped] = useState('');
  const [done, setDone] = useState(false);
  const token = linked === '' ? typed.trim() : linked;
  const form = useForm(
    () => answer(api.POST('/api/v1/user/email/confirm', { body: { token } })),
    () => {
      setDone(true);
      void queries.invalidateQueries();
    },
  );
  const signedIn = session.kind === 'user';
  if (done) {
    return (
      <Page
        title="Your e-mail address is confirmed"
        lead="You can set a new password by it, and link wallets and OpenID accounts."
      >
        <div>
          <Button component={Link} to={signedIn ? '/overview' : '/sign-in'}>
            {signedIn ? 'Overview' : 'Sign in'}
          </Button>
        </div>
      </Page>
    );
  }
  return (
    <Container size={440} px={0} mx={0} w="100%">
      <Page title="Confirm your e-mail address" lead="The letter’s link counts once, for 24 hours.">
        <Section title="Confirm it">
          <Form form={form} label="Confirm the address" params={['token']}>
            {linked === '' && (
              <TextInput
                label="Token of the letter"
                description="The letter shows it under its link."
                autoComplete="off"
                required
                withAsterisk={false}
                maxLength={64}
                value={typed}
                error={form.of('token')}
                onChange={(event) => setTyped(event.currentTarget.value)}
              />
            )}
            {form.error?.code === 'invalid_credentials' && (
              <Text size="sm">
                The link was used, or is older than 24 hours.{' '}
                <Anchor component={Link} to="/settings" inherit underline="always">
                  Ask for another letter under Settings
                </Anchor>
                .
              </Text>
            )}
          </Form>
        </Section>
      </Page>
    </Container>
  );
}
