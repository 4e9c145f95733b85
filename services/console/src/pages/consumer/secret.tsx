import { Button, Checkbox, Group, Modal, Stack, Text } from '@mantine/core';
import { useState } from 'react';

import { CodeBlock } from '../../ui/code';

interface ShownOnceProps {
  /** The text; empty while there is none to show. */
  secret: string;
  title: string;
  /** What it is for and where it goes. */
  note: string;
  onClose: () => void;
}

/** Shows a secret that nobody can read again, and closes only once its reader says that it is kept. */
export function ShownOnce({ secret, title, note, onClose }: ShownOnceProps) {
  const [kept, setKept] = useState(false);
  function close() {
    setKept(false);
    onClose();
  }
  return (
    <Modal
      opened={secret !== ''}
      onClose={close}
      title={title}
      closeOnClickOutside={false}
      closeOnEscape={kept}
      withCloseButton={false}
    >
      <Stack>
        <Text size="sm">{note} It is shown this once, because the service keeps no copy that can be read.</Text>
        <CodeBlock code={secret} label={title} />
        <Checkbox
          label="I have copied it to a safe place"
          checked={kept}
          onChange={(event) => setKept(event.currentTarget.checked)}
        />
        <Group justify="flex-end">
          <Button onClick={close} disabled={!kept}>
            Close
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
