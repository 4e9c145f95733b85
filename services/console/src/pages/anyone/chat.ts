// The body of a question in the playground, what the headers of an answer say, and the call of whoever has a key: a
// stream. The calls of visitors are in visitor.ts.

import type { Schemas } from '../../api/client';
import { asApiError, readError } from '../../api/error';

export type ChatBody = Schemas['CreateChatCompletionRequest'];
type Message = Schemas['ChatMessage'];

/** What the settings of the page ask for; null leaves a value to the model. */
export interface Wish {
  model: string;
  system: string;
  maxTokens: number | null;
  temperature: number | null;
}

/** A question with the answer that it got. */
export interface Exchanged {
  asked: string;
  text: string;
}

/** The body of a request for the answer to `asked`, after what was said before. */
export function bodyOf(wish: Wish, before: Exchanged[], asked: string): ChatBody {
  const messages: Message[] = [];
  if (wish.system.trim() !== '') messages.push({ role: 'system', content: wish.system });
  for (const turn of before) {
    messages.push({ role: 'user', content: turn.asked });
    if (turn.text !== '') messages.push({ role: 'assistant', content: turn.text });
  }
  messages.push({ role: 'user', content: asked });
  const body: ChatBody = { model: wish.model, messages };
  if (wish.maxTokens !== null) body.max_tokens = wish.maxTokens;
  if (wish.temperature !== null) body.temperature = wish.temperature;
  return body;
}

/** Who served an answer, and how, as its headers say. */
export interface Served {
  requestId: string;
  providerId: string;
  providerName: string;
  /** payg, plan, free or playground; empty where it is not known. */
  billing: string;
  /** Milliseconds: of a stream to its first content, else to the end. Null where it is not known. */
  latency: number | null;
}

export function servedOf(headers: Headers): Served {
  const text = (name: string) => headers.get(name) ?? '';
  const latency = Number(text('X-Svc-Latency-Ms') || NaN);
  return {
    requestId: text('X-Svc-Request-Id'),
    providerId: text('X-Svc-Provider-Id'),
    providerName: text('X-Svc-Provider-Name'),
    billing: text('X-Svc-Billing-Type'),
    latency: Number.isFinite(latency) ? latency : null,
  };
}

/**
 * Begins a stream with a consumer key. The client of all other calls sends the session's token, which /v1
 * does not take; so this call is made here. A text that is sent again with the same idempotency key is
 * billed once.
 */
export async function openStream(
  key: string,
  text: string,
  idempotency: string,
  signal: AbortSignal,
): Promise<Response> {
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      Accept: 'text/event-stream',
      'Idempotency-Key': idempotency,
    },
    body: text,
    signal,
  }).catch((thrown: unknown) => {
    throw asApiError(thrown);
  });
  if (!response.ok) throw readError(response, await response.text());
  return response;
}

/** The text of a body for a stream whose last chunk has the tokens and the cost. */
export function streamed(body: ChatBody): string {
  return JSON.stringify({ ...body, stream: true, usage: { include: true } });
}
