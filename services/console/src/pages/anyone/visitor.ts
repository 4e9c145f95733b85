// The calls of a visitor without a key. A session of the playground is in a cookie that no page can read: the list of
// models opens it, and a question needs it. The client of all other calls sends the token of a user's session, and signs
// a user out whose session is over; so these calls are made here.

import type { Schemas } from '../../api/client';
import { asApiError, readError } from '../../api/error';
import { visitsOf, type Visits } from './visits';

/** What a visitor may ask, and what is left of the hour; null where the answer does not say. */
export interface Admitted {
  models: Schemas['ModelList']['data'];
  visits: Visits | null;
}

/** Opens a session, or finds that the visitor's own still stands. */
export async function openSession(signal?: AbortSignal): Promise<Admitted> {
  const response = await call('/v1/playground/models', { signal });
  if (!response.ok) throw await refusal(response);
  const list = (await response.json()) as Schemas['ModelList'];
  return { models: list.data, visits: visitsOf(response.headers, Date.now()) };
}

/**
 * Asks as a visitor. `seen` gets the headers of the answer, and of a refusal too. Where the session is over, another is
 * opened once, and the question is asked again.
 */
export async function askAsVisitor(
  body: Schemas['CreateChatCompletionRequest'],
  signal: AbortSignal,
  seen: (headers: Headers) => void,
): Promise<Schemas['ChatCompletion']> {
  const ask = () =>
    call('/v1/playground/chat', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
  let response = await ask();
  if (response.status === 401) {
    await openSession(signal);
    response = await ask();
  }
  seen(response.headers);
  if (!response.ok) throw await refusal(response);
  return (await response.json()) as Schemas['ChatCompletion'];
}

async function call(path: string, init: RequestInit): Promise<Response> {
  return fetch(path, init).catch((thrown: unknown) => {
    throw asApiError(thrown);
  });
}

async function refusal(response: Response) {
  return readError(response, await response.text());
}
