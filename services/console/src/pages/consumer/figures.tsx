import type { ReactNode } from 'react';

/** Figures beside each other, as many as fit. */
export function Figures({ children }: { children: ReactNode }) {
  return <div className="figures">{children}</div>;
}
