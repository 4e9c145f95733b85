// The consumer key that the playground uses. It is in this module's memory alone: a reload forgets it, and
// so does signing out.

import { useSyncExternalStore } from 'react';

import { getSession, subscribeSession } from '../../api/session';

let key = '';
const listeners = new Set<() => void>();

export function setApiKey(next: string) {
  key = next.trim();
  for (const listener of listeners) listener();
}

let before = getSession().kind;
subscribeSession(() => {
  const now = getSession().kind;
  // The first look for a session ends as `out` for a visitor too, who may have pasted a key meanwhile.
  if (now === 'out' && before !== 'unknown') setApiKey('');
  before = now;
});

/** The key, now and after each change; empty for none. */
export function useApiKey(): string {
  return useSyncExternalStore(subscribe, () => key);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Says what is wrong with a text that is to be a key; undefined for nothing. */
export function keyProblem(text: string): string | undefined {
  if (text === '') return undefined;
  if (!/^[\x21-\x7e]{1,256}$/.test(text)) return 'A key is one word of letters and digits.';
  if (text.startsWith('sk-prov-')) return 'This is a provider key. Paste a consumer key, which begins with sk-svc-.';
  if (!text.startsWith('sk-svc-')) return 'A consumer key begins with sk-svc-.';
  return undefined;
}
