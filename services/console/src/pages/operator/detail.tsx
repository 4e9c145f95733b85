import { Drawer, Stack } from '@mantine/core';
import type { ReactNode } from 'react';

/** One row of a list at length, beside the list. Its parts are sections with headings of the second order. */
export function Detail({
  title,
  open,
  onClose,
  children,
}: {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ReactNode;
}) {
  return (
    <Drawer
      opened={open}
      onClose={onClose}
      position="right"
      size="xl"
      title={title}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Stack>{children}</Stack>
    </Drawer>
  );
}
