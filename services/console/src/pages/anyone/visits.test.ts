import { describe, expect, it } from 'vitest';

import { goDuration, visitsOf } from './visits';

describe('goDuration', () => {
  it.each([
    ['1h0m0s', 3600],
    ['40m0s', 2400],
    ['1.5s', 1.5],
    ['350ms', 0.35],
    ['2h3m4.5s', 7384.5],
    ['0s', 0],
  ])('reads %s', (text, seconds) => {
    expect(goDuration(text)).toBeCloseTo(seconds, 9);
  });

  it.each(['', '5', 'h', '5 s', '-5s', '5s later', '5x'])('refuses %j', (text) => {
    expect(goDuration(text)).toBeNull();
  });
});

describe('visitsOf', () => {
  const now = Date.parse('2026-11-29T12:00:00Z');

  it('reads what is left and when more comes', () => {
    const headers = new Headers({
      'X-Ratelimit-Limit-Requests': '5',
      'X-Ratelimit-Remaining-Requests': '4',
      'X-Ratelimit-Reset-Requests': '40m0s',
    });
    expect(visitsOf(headers, now)).toEqual({ limit: 5, remaining: 4, resets: '2026-11-29T12:40:00.000Z' });
  });

  it('says nothing of headers that are absent or absurd', () => {
    expect(visitsOf(new Headers(), now)).toBeNull();
    expect(
      visitsOf(new Headers({ 'X-Ratelimit-Limit-Requests': '5', 'X-Ratelimit-Remaining-Requests': 'many' }), now),
    ).toBeNull();
    const withoutReset = new Headers({ 'X-Ratelimit-Limit-Requests': '5', 'X-Ratelimit-Remaining-Requests': '0' });
    expect(visitsOf(withoutReset, now)).toEqual({ limit: 5, remaining: 0, resets: null });
  });
});
