import { Button, Drawer, Group, ScrollArea, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';

import { CodeIcon } from './icons';
import { Copy } from './text';

/** A button that shows an object as the API answered it. */
export function JsonView({ value, title }: { value: unknown; title: string }) {
  const [open, { open: show, close }] = useDisclosure(false);
  const text = open ? JSON.stringify(value, null, 2) : '';
  return (
    <>
      <Button
        variant="subtle"
        color="gray"
        size="compact-sm"
        leftSection={<CodeIcon />}
        onClick={show}
        aria-label={`JSON of ${title}`}
      >
        JSON
      </Button>
      <Drawer
        opened={open}
        onClose={close}
        position="right"
        size="lg"
        title={`${title} as JSON`}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <Group justify="space-between" mb="xs">
          <Text size="sm">As the API answered it.</Text>
          <Copy value={text} what="JSON" />
        </Group>
        <ScrollArea.Autosize mah="80vh" viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': 'JSON' }}>
          <pre className="json">{text}</pre>
        </ScrollArea.Autosize>
      </Drawer>
    </>
  );
}
