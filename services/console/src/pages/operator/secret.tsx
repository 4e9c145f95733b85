import { Alert, Group, Stack, Text } from '@mantine/core';

import { Copy, Id } from '../../ui/text';

/** A secret that the service shows this once. */
export function Secret({ what, secret, id }: { what: string; secret: string; id: string }) {
  return (
    <Alert color="yellow" variant="light" title={`${what}: copy it now`} role="status" mt="sm">
      <Stack gap={4}>
        <Text size="sm">It is shown this once. Hand it over on a safe way, and keep no copy.</Text>
        <Group gap={4} wrap="nowrap">
          <Text component="code" size="sm" className="breakable">
            {secret}
          </Text>
          <Copy value={secret} what={what.toLowerCase()} />
        </Group>
        <Text size="xs" component="div">
          Key <Id value={id} what="key id" />
        </Text>
      </Stack>
    </Alert>
  );
}
