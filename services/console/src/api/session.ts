// Who is signed in. The access token lives in this module's memory alone, so that no other page and no
// storage has it. A reload gets a new one with the refresh cookie, which scripts cannot read.

import { asApiError, readError, type ApiError } from './error';
import type { components } from './schema';

export type SessionUser = components['schemas']['SessionUser'];
export type Operator = components['schemas']['Operator'];

/** What the page knows of its visitor. */
export type SessionState =
  | { kind: 'unknown' } // the first refresh has not ended
  | { kind: 'out' }
  | { kind: 'lost'; error: ApiError } // the first refresh got no answer, so nobody knows
  | { kind: 'user'; user: SessionUser }
  | { kind: 'operator'; operator: Operator };

let state: SessionState = { kind: 'unknown' };
let token = '';
let expires = 0; // milliseconds since 1970
let refreshing: Promise<boolean> | null = null;
const listeners = new Set<() => void>();

/** Whether this page is on the operators' listener. The gateway says so in the page. */
export const isOperatorSite = document.querySelector('meta[name="audience"]')?.getAttribute('content') === 'operators';

const refreshPath = isOperatorSite ? '/api/v1/admin/session/refresh' : '/api/v1/user/refresh';

export function getSession(): SessionState {
  return state;
}

export function subscribeSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(next: SessionState) {
  state = next;
  for (const listener of listeners) listener();
}

/** Takes what a sign-in, a sign-up or a refresh answered. */
export function signedIn(answer: { token: string; expires_at: string | null; user: SessionUser }) {
  token = answer.token;
  expires = answer.expires_at === null ? 0 : Date.parse(answer.expires_at);
  change({ kind: 'user', user: answer.user });
}

/** Takes what an operator's sign-in or refresh answered. */
export function operatorSignedIn(answer: components['schemas']['OpenOperatorSessionResponse']) {
  if (answer.operator === null) return;
  token = answer.token;
  expires = answer.expires_at === null ? 0 : Date.parse(answer.expires_at);
  change({ kind: 'operator', operator: answer.operator });
}

/** Forgets the session in this page, after it was ended or has ended. */
export function signedOut() {
  token = '';
  expires = 0;
  change({ kind: 'out' });
}

/**
 * Returns the access token, renewed where it ends within half a minute; empty where nobody is
 * signed in.
 */
export async function accessToken(): Promise<string> {
  if (token !== '' && expires - Date.now() < 30_000) await refresh();
  return token;
}

/**
 * Gets a new access token with the refresh cookie, and reports whether somebody is signed in. The cookie
 * changes with each use, and a cookie that is used twice ends its session. So all tabs of a browser take
 * turns, and all callers of one tab share one refresh.
 */
export function refresh(): Promise<boolean> {
  refreshing ??= inTurn(renew).finally(() => {
    refreshing = null;
  });
  return refreshing;
}

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (!('locks' in navigator)) return work(); // an old browser, or a page without TLS
  return navigator.locks.request('session', work);
}

async function renew(): Promise<boolean> {
  let response: Response;
  try {
    response = await fetch(refreshPath, { method: 'POST', headers: { Accept: 'application/json' } });
  } catch (thrown) {
    throw lost(asApiError(thrown));
  }
  const body = (await response.json().catch(() => null)) as unknown;
  if (response.ok) {
    if (isOperatorSite) operatorSignedIn(body as components['schemas']['OpenOperatorSessionResponse']);
    else signedIn(body as components['schemas']['Session']);
    return true;
  }
  if (response.status === 401 || response.status === 403) {
    signedOut();
    return false;
  }
  throw lost(readError(response, body));
}

/** Keeps why nobody knows who is signed in. A session that is known stays as it is. */
function lost(error: ApiError): ApiError {
  if (state.kind === 'unknown' || state.kind === 'lost') change({ kind: 'lost', error });
  return error;
}
