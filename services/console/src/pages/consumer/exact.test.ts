import { describe, expect, test } from 'vitest';

import { fromUnits, isBelow, toUnits, usedPercent, withPercent } from './exact';

describe('amounts as whole units', () => {
  test.each([
    ['0', 9, 0n],
    ['1.5', 9, 1_500_000_000n],
    ['-0.000000001', 9, -1n],
    ['1000000', 9, 1_000_000_000_000_000n],
    ['0.150000', 6, 150_000n],
    ['0.1500000', 6, 150_000n],
  ])('%s with %i places', (text, places, want) => {
    expect(toUnits(text, places)).toBe(want);
  });

  test.each(['', '.', 'x', '1e3', '0.0000000001', '--1'])('"%s" is no amount', (text) => {
    expect(toUnits(text, 9)).toBeNull();
  });

  test('they are written as they were', () => {
    for (const text of ['0.000000001', '-12.340000000', '0.000000000']) {
      const units = toUnits(text, 9);
      expect(units).not.toBeNull();
      expect(fromUnits(units ?? 0n, 9)).toBe(text);
    }
  });
});

test('amounts are compared beyond what a double holds', () => {
  expect(isBelow('9007199254740993.000000001', '9007199254740993.000000002')).toBe(true);
  expect(isBelow('2', '10')).toBe(true);
  expect(isBelow('10', '10.00')).toBe(false);
  expect(isBelow('x', '1')).toBe(false);
});

test('a bonus is added exactly', () => {
  expect(withPercent('100', 20)).toBe('120.000000000');
  expect(withPercent('0.1', 20)).toBe('0.120000000');
});

test('a bound of zero is used up', () => {
  expect(usedPercent(0, 0)).toBe(100);
  expect(usedPercent(1, 4)).toBe(25);
  expect(usedPercent(9, 4)).toBe(100);
});
