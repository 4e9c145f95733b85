import { useSyncExternalStore } from 'react';

import { getSession, subscribeSession, type SessionState } from '../api/session';

/** Who is signed in, now and after each change. */
export function useSession(): SessionState {
  return useSyncExternalStore(subscribeSession, getSession);
}
