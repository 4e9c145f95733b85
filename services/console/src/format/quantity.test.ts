import { describe, expect, it } from 'vitest';

import { compact, count, duration, milliseconds, percent } from './quantity';

describe('count', () => {
  it.each([
    [0, '0'],
    [12_345, '12,345'],
    ['12345', '12,345'],
    ['many', 'many'],
  ])('shows %j', (value, want) => {
    expect(count(value)).toBe(want);
  });
});

describe('compact', () => {
  it.each([
    [999, '999'],
    [1_234, '1.2K'],
    [1_234_567, '1.2M'],
  ])('shows %d', (value, want) => {
    expect(compact(value)).toBe(want);
  });
});

describe('percent', () => {
  it.each([
    [0, 1, '0%'],
    [1, 1, '100%'],
    [0.123, 1, '12.3%'],
    [0.9995, 2, '99.95%'],
    [0.1, 0, '10%'],
  ])('shows %d with %d digits', (share, digits, want) => {
    expect(percent(share, digits)).toBe(want);
  });
});

describe('milliseconds', () => {
  it.each([
    [0, '0 ms'],
    [839.6, '840 ms'],
    [2_400, '2.4 s'],
    [180_000, '3 min'],
  ])('shows %d', (value, want) => {
    expect(milliseconds(value)).toBe(want);
  });
});

describe('duration', () => {
  it.each([
    [-5, '0 s'],
    [0, '0 s'],
    [0.4, '0 s'],
    [5, '5 s'],
    [59.6, '1 min'],
    [310, '5 min 10 s'],
    [3_600, '1 h'],
    [86_405, '1 d'],
    [187_200, '2 d 4 h'],
  ])('shows %d', (seconds, want) => {
    expect(duration(seconds)).toBe(want);
  });
});
