import { describe, expect, it } from 'vitest';

import { day, moment, relative } from './time';

describe('moment', () => {
  it('shows UTC to the second, whatever zone it came in', () => {
    expect(moment('2026-11-29T14:03:07Z', 'utc')).toBe('2026-11-29 14:03:07 UTC');
    expect(moment('2026-11-30T01:00:00.987+02:00', 'utc')).toBe('2026-11-29 23:00:00 UTC');
  });

  it('names the zone of the reader', () => {
    expect(moment('2026-11-29T14:03:07Z', 'local')).toMatch(/^2026-11-\d\d \d\d:\d\d:07 \S+/);
  });

  it('leaves a text that is no moment as it is', () => {
    expect(moment('soon', 'utc')).toBe('soon');
  });
});

describe('day', () => {
  it('cuts a moment at midnight in UTC', () => {
    expect(day('2026-11-29T23:59:59Z', 'utc')).toBe('2026-11-29');
    expect(day('2026-11-30T00:00:00Z', 'utc')).toBe('2026-11-30');
  });

  it('leaves a day as it is in every zone', () => {
    expect(day('2026-11-29', 'utc')).toBe('2026-11-29');
    expect(day('2026-11-29', 'local')).toBe('2026-11-29');
  });

  it('leaves a text that is no day as it is', () => {
    expect(day('soon', 'local')).toBe('soon');
  });
});

describe('relative', () => {
  const now = Date.parse('2026-11-29T12:00:00Z');
  it.each([
    ['2026-11-29T12:00:00Z', 'now'],
    ['2026-11-29T12:00:30Z', 'in 30 s'],
    ['2026-11-29T11:55:00Z', '5 min ago'],
    ['2026-11-29T15:00:00Z', 'in 3 h'],
    ['2026-12-01T11:00:00Z', 'in 47 h'],
    ['2026-11-26T12:00:00Z', '3 d ago'],
  ])('of %s', (value, want) => {
    expect(relative(value, now)).toBe(want);
  });
});
