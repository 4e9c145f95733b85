import { afterEach, describe, expect, it, vi } from 'vitest';

import { askAsVisitor, openSession } from './visitor';

/** Answers calls one after the other, and notes them. */
function answering(...answers: Response[]) {
  const asked: string[] = [];
  vi.stubGlobal('fetch', async (path: string, init: RequestInit) => {
    asked.push(`${init.method ?? 'GET'} ${path}`);
    return answers.shift() ?? new Response('', { status: 500 });
  });
  return asked;
}

const models = () =>
  Response.json(
    { object: 'list', data: [{ id: 'a/b' }] },
    { headers: { 'X-Ratelimit-Limit-Requests': '5', 'X-Ratelimit-Remaining-Requests': '3' } },
  );
const noSession = () => Response.json({ error: { message: 'over', code: 'invalid_session' } }, { status: 401 });
const spoken = () => Response.json({ choices: [] });

afterEach(() => vi.unstubAllGlobals());

describe('openSession', () => {
  it('gives the models with what is left of the hour', async () => {
    answering(models());
    expect(await openSession()).toEqual({
      models: [{ id: 'a/b' }],
      visits: { limit: 5, remaining: 3, resets: null },
    });
  });

  it('says when a refused visitor may come again', async () => {
    answering(
      Response.json(
        { error: { message: 'full', code: 'rate_limit_exceeded' } },
        { status: 429, headers: { 'Retry-After': '60' } },
      ),
    );
    await expect(openSession()).rejects.toMatchObject({ code: 'rate_limit_exceeded', retryAfter: 60 });
  });
});

describe('askAsVisitor', () => {
  const ask = (seen = (_: Headers) => undefined as void) =>
    askAsVisitor({ model: 'a/b', messages: [] }, new AbortController().signal, seen);

  it('opens another session where the own one is over, and asks again', async () => {
    const asked = answering(noSession(), models(), spoken());
    expect(await ask()).toEqual({ choices: [] });
    expect(asked).toEqual(['POST /v1/playground/chat', 'GET /v1/playground/models', 'POST /v1/playground/chat']);
  });

  it('opens another session once', async () => {
    const asked = answering(noSession(), models(), noSession());
    await expect(ask()).rejects.toMatchObject({ code: 'invalid_session' });
    expect(asked.length).toBe(3);
  });

  it('shows the headers of a refusal', async () => {
    answering(
      Response.json(
        { error: { message: 'enough' } },
        { status: 429, headers: { 'X-Ratelimit-Remaining-Requests': '0' } },
      ),
    );
    const seen: (string | null)[] = [];
    await expect(ask((headers) => void seen.push(headers.get('X-Ratelimit-Remaining-Requests')))).rejects.toThrow(
      'enough',
    );
    expect(seen).toEqual(['0']);
  });
});
