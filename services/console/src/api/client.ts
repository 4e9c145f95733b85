// The calls to the API, typed by the description that the service itself answers at /openapi.json.

import createClient, { type Middleware } from 'openapi-fetch';

import { asApiError, readError } from './error';
import { accessToken, getSession, refresh, signedOut } from './session';
import type { components, paths } from './schema';

export type Schemas = components['schemas'];

/** Adds the access token, and asks once more with a new one where the token has just ended. */
const authorize: Middleware = {
  async onRequest({ request }) {
    const token = await accessToken();
    if (token !== '') request.headers.set('Authorization', `Bearer ${token}`);
    return request;
  },
};

async function send(request: Request): Promise<Response> {
  const again = request.clone(); // a body can be read once
  const response = await fetch(request).catch((thrown: unknown) => {
    throw asApiError(thrown);
  });
  if (response.status !== 401 || !request.headers.has('Authorization')) return response;
  const refusal = readError(
    response,
    await response
      .clone()
      .text()
      .catch(() => ''),
  );
  if (!endsSession(refusal.code)) return response;
  if (!(await refresh())) return response;
  again.headers.set('Authorization', `Bearer ${await accessToken()}`);
  return fetch(again);
}

/**
 * Reports whether a refusal ends the session. Other refusals have the status 401, too: of a wrong password in a body,
 * and of a route that wants a key. These must neither be sent again nor sign anybody out.
 */
function endsSession(code: string): boolean {
  return code === 'invalid_session' || code === 'session_expired';
}

export const api = createClient<paths>({ baseUrl: window.location.origin, fetch: send });
api.use(authorize);

/** What openapi-fetch returns for a call. */
interface Outcome<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/**
 * Returns what a call answered, and throws an ApiError where it failed:
 *
 *     const balance = await answer(api.GET('/api/v1/consumer/balance'));
 */
export async function answer<T>(call: Promise<Outcome<T>>): Promise<T> {
  const { data, error, response } = await call.catch((thrown: unknown) => {
    throw asApiError(thrown);
  });
  if (response.ok) return data as T;
  const failed = readError(response, error);
  if (endsSession(failed.code) && getSession().kind !== 'out') signedOut();
  throw failed;
}

/**
 * A key that makes a repeated call have one effect. A form makes one when it opens and keeps it until its
 * call has succeeded, so that a lost connection never pays twice.
 */
export function idempotencyKey(): string {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), hex).join('');
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, '0');
}
