// What the pages of signing in share.

import { useQueryClient } from '@tanstack/react-query';
import { useLocation } from 'react-router';

import { signedIn } from '../../api/session';
import type { Schemas } from '../../api/client';

type NewOrKnown = Schemas['Session'] | Schemas['NewSession'];

/** Where a reader wanted to go before signing in; the overview where nowhere. Only pages of this site count. */
export function useFrom(): string {
  const state: unknown = useLocation().state;
  const from: unknown = typeof state === 'object' && state !== null ? Reflect.get(state, 'from') : undefined;
  return typeof from === 'string' && /^\/(?![/\\])/.test(from) ? from : '/overview';
}

/** Takes a session that was opened. What another user has left in the page's memory is forgotten first. */
export function useEnter(): (session: NewOrKnown) => void {
  const queries = useQueryClient();
  return (session) => {
    queries.clear();
    signedIn(session);
  };
}

/** The token of a letter. It stands behind the #, which browsers send to no server. Empty for none. */
export function letterToken(hash: string): string {
  return new URLSearchParams(hash.replace(/^#/, '')).get('token') ?? '';
}
