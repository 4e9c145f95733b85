import { describe, expect, it } from 'vitest';

import { bytes, estimated } from './figures';

describe('bytes', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_500, '1.5 kB'],
    [14_200_000_000, '14.2 GB'],
    [2e12, '2.0 TB'],
  ])('shows %d', (value, want) => {
    expect(bytes(value)).toBe(want);
  });
});

describe('estimated', () => {
  it.each([
    [0, '$0.00'],
    [Number.NaN, '$0.00'],
    [1234.567, '$1,234.57'],
    [0.5, '$0.50'],
    [0.0123, '$0.0123'],
    [0.000001234, '$0.00000123'],
    [1e-12, '$0.00'],
    [-2.5, '-$2.50'],
  ])('shows %d', (value, want) => {
    expect(estimated(value)).toBe(want);
  });
});
