import { describe, expect, it } from 'vitest';

import { ApiError, asApiError, readError } from './error';

function refusal(status: number, headers: Record<string, string> = {}): Response {
  return new Response(null, { status, headers });
}

describe('readError', () => {
  it('reads the envelope', () => {
    const body = {
      error: { message: 'No credit.', type: 'insufficient_quota', param: 'max_tokens', code: 'insufficient_credits' },
      request_id: 'r-1',
    };
    expect(readError(refusal(402, { 'X-Request-ID': 'r-2', 'Retry-After': '7' }), body)).toMatchObject({
      message: 'No credit.',
      status: 402,
      code: 'insufficient_credits',
      param: 'max_tokens',
      requestId: 'r-1',
      retryAfter: 7,
    });
  });

  it('takes the type where an envelope has no code', () => {
    const body = { error: { message: 'No.', type: 'server_error', param: null, code: null } };
    expect(readError(refusal(500), body)).toMatchObject({ code: 'server_error', param: null });
  });

  it('reads the flat form', () => {
    const text = 'The e-mail address or the password is wrong.';
    const body = { error: text, message: text, code: 'invalid_credentials', param: 'email', request_id: 'r-1' };
    expect(readError(refusal(401), body)).toMatchObject({
      message: text,
      code: 'invalid_credentials',
      param: 'email',
      requestId: 'r-1',
    });
  });

  it('reads a flat form that has its text in error alone', () => {
    expect(readError(refusal(409), { error: 'Taken.' })).toMatchObject({
      message: 'Taken.',
      code: 'unknown',
      param: null,
    });
  });

  it('reads a body that has not been parsed', () => {
    const error = readError(refusal(400), '{"error":{"message":"Bad.","code":"invalid_value"}}');
    expect(error).toMatchObject({ message: 'Bad.', code: 'invalid_value' });
  });

  it.each([
    ['<html>bad gateway</html>'],
    [''],
    [null],
    [undefined],
    [7],
    [[]],
    [{ error: { message: 7 } }],
    [{ error: null }],
  ])('has words of its own for a body that is none: %j', (body) => {
    const error = readError(refusal(502, { 'X-Request-ID': 'r-2' }), body);
    expect(error.message).toBe('The service failed. Try again in a moment.');
    expect(error).toMatchObject({ code: 'unknown', requestId: 'r-2' });
  });

  it('names the status of a refusal that has no words', () => {
    expect(readError(refusal(418), '').message).toBe('The service refused this (status 418).');
  });

  it('reads when to try again, in seconds or as a date', () => {
    const after = (value: string) => readError(refusal(429, { 'Retry-After': value }), '').retryAfter;
    expect(after('0')).toBe(0);
    expect(after('2.5')).toBe(2.5);
    expect(after('-5')).toBe(0);
    expect(after('soon')).toBeNull();
    expect(after(new Date(Date.now() - 60_000).toUTCString())).toBe(0);
    const ahead = after(new Date(Date.now() + 60_000).toUTCString());
    expect(ahead).toBeGreaterThan(50);
    expect(ahead).toBeLessThanOrEqual(60);
    expect(readError(refusal(429), '').retryAfter).toBeNull();
  });
});

describe('asApiError', () => {
  it('keeps an ApiError', () => {
    const error = new ApiError('x', { status: 400, code: 'y' });
    expect(asApiError(error)).toBe(error);
  });

  it('takes what fetch throws for a lost connection', () => {
    expect(asApiError(new TypeError('Failed to fetch'))).toMatchObject({ status: 0, code: 'connection_lost' });
  });

  it.each([[new Error('secret')], ['text'], [null]])('shows nothing of %j', (thrown) => {
    const error = asApiError(thrown);
    expect(error.code).toBe('page_failed');
    expect(error.message).not.toContain('secret');
  });
});
