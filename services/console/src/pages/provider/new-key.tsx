import { Alert, Button, Stack, Text } from '@mantine/core';

import { CodeBlock } from '../../ui/code';

/** A key that nobody can show again. It stays until the reader says that it is kept. */
export function NewKey({ text, onKept }: { text: string; onKept?: () => void }) {
  return (
    <Alert color="teal" variant="light" title="Your new provider key" role="status">
      <Stack gap="xs" align="stretch">
        <Text size="sm">
          Copy it now. It is shown this once, because the service keeps only a digest of it. Agents connect with it. It
          reads the account, and it cannot move money.
        </Text>
        <CodeBlock code={text} label="Provider key" />
        {onKept !== undefined && (
          <Button size="xs" variant="default" onClick={onKept} style={{ alignSelf: 'flex-start' }}>
            I have kept it
          </Button>
        )}
      </Stack>
    </Alert>
  );
}
