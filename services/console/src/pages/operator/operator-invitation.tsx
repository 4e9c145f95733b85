// An invitation, which the API answers this once.

import { Button, Stack, Text } from '@mantine/core';

import { Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment } from '../../ui/text';

export interface Invited {
  name: string;
  invitation: string;
  expires_at: string | null;
}

/**
 * The invitation as an address to hand over. It stands behind the '#', which browsers send to no server, so that
 * no log has it.
 */
export function Invitation({ invited, onHide }: { invited: Invited; onHide: () => void }) {
  const address = `${window.location.origin}/app/accept#${invited.invitation}`;
  return (
    <Section
      title={`Invitation of ${invited.name}`}
      note="Shown this once. Hand it to the person alone, by a way that nobody else reads: whoever has it becomes this operator."
      actions={
        <Button size="xs" variant="default" onClick={onHide}>
          Hide
        </Button>
      }
    >
      <Stack gap="sm" role="status">
        <Facts
          facts={[
            ['Address to open', <Id key="address" value={address} what="address of the invitation" full />],
            ['Invitation alone', <Id key="invitation" value={invited.invitation} what="invitation" full />],
            ['Good until', <Moment key="until" at={invited.expires_at} withAge />],
          ]}
        />
        <Text size="sm">The person opens the address, chooses a password and scans a code for one-time passwords.</Text>
      </Stack>
    </Section>
  );
}
