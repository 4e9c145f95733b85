import { SimpleGrid } from '@mantine/core';
import type { ReactNode } from 'react';

/** Figures beside each other, as many as fit. */
export function Figures({ children }: { children: ReactNode }) {
  return <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }}>{children}</SimpleGrid>;
}
