import type { ReactNode } from 'react';

export type Fact = [name: string, value: ReactNode];

/** A fact that is shown only where it holds; to be spread into a list of facts. */
export function factIf(holds: boolean, name: string, value: ReactNode): Fact[] {
  return holds ? [[name, value]] : [];
}
