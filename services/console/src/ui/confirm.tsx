// Acts that change something for good ask first, and say what they will do.

import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useState, type ReactNode } from 'react';

import { Failure } from './page';

interface ConfirmProps {
  /** What the button says, for example `Revoke`. */
  label: string;
  /** What the question asks, for example `Revoke the key "ci"?`. */
  title: string;
  /** What will happen, in a sentence or two. */
  children: ReactNode;
  act: () => Promise<unknown>;
  /** Whether it cannot be undone; the button is red then. */
  destructive?: boolean;
  disabled?: boolean;
  size?: string;
}

/** A button whose act is asked for first. An error stays in the question, so that it can be tried again. */
export function Confirm({
  label,
  title,
  children,
  act,
  destructive = false,
  disabled = false,
  size = 'xs',
}: ConfirmProps) {
  const [open, { open: ask, close }] = useDisclosure(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function go() {
    setBusy(true);
    setError(null);
    try {
      await act();
      close();
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <Button
        size={size}
        variant={destructive ? 'light' : 'default'}
        color={destructive ? 'red' : undefined}
        onClick={ask}
        disabled={disabled}
      >
        {label}
      </Button>
      <Modal opened={open} onClose={close} title={title} closeButtonProps={{ 'aria-label': 'Close' }}>
        <Stack>
          <Text component="div" size="sm">
            {children}
          </Text>
          {error !== null && <Failure error={error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close} data-autofocus>
              Leave it
            </Button>
            <Button color={destructive ? 'red' : undefined} onClick={() => void go()} loading={busy}>
              {label}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
