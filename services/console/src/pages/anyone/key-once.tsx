import { Alert, Button, Code, Group, List, Stack, Text } from '@mantine/core';
import { Link } from 'react-router';

import { Page, Section } from '../../ui/page';
import { Copy } from '../../ui/text';
import { setApiKey } from './key';

/** An account has just been opened: its first key, which is shown this once, and what to do next. */
export function KeyOnce({ apiKey, email, next }: { apiKey: string; email: string; next: string }) {
  return (
    <Page title="Your account is open" lead="Store this key now. It is shown this once, and nobody can show it again.">
      <Section title="Your first key">
        <Stack>
          <Group gap="xs" wrap="nowrap" align="flex-start">
            <Code
              block
              className="breakable"
              flex={1}
              miw={0}
              tabIndex={0}
              aria-label="Your key"
              style={{ whiteSpace: 'pre-wrap' }}
            >
              {apiKey}
            </Code>
            <Copy value={apiKey} what="key" />
          </Group>
          <Alert color="yellow" variant="light" title="Whoever has this key spends your credit">
            <Text size="sm">
              Keep it in a password manager or in the environment of your program, and in no source file. A lost key is
              replaced under Keys.
            </Text>
          </Alert>
        </Stack>
      </Section>
      <Section title="What to do next">
        <Stack>
          <List size="sm" spacing="xs">
            <List.Item>Add credit by card or crypto. Models that cost nothing need none.</List.Item>
            <List.Item>
              Ask a model in the playground with this key, which the page keeps in its memory for that.
            </List.Item>
            <List.Item>Copy the code of the quick start into your program.</List.Item>
            {email !== '' && (
              <List.Item>If a letter has come to {email}, open its link to confirm the address.</List.Item>
            )}
          </List>
          <Group gap="xs">
            <Button component={Link} to="/credits">
              Add credit
            </Button>
            <Button component={Link} to="/playground" variant="default" onClick={() => setApiKey(apiKey)}>
              Playground
            </Button>
            <Button component={Link} to="/quick-start" variant="default">
              Quick start
            </Button>
            <Button component={Link} to={next} variant="default">
              {next === '/overview' ? 'Overview' : 'Go on'}
            </Button>
          </Group>
        </Stack>
      </Section>
    </Page>
  );
}
