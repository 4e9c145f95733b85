import { describe, expect, it } from 'vitest';

import { aligned, cents, dollars, isNegative, isZero, units } from './money';

describe('dollars', () => {
  it.each([
    ['0', '$0.00'],
    ['5', '$5.00'],
    ['5.', '$5.00'],
    [' 5.5 ', '$5.50'],
    ['+5.25', '$5.25'],
    ['1234.5', '$1,234.50'],
    ['-1234.5', '-$1,234.50'],
    ['1.230000000', '$1.23'],
    ['0.000000001', '$0.000000001'],
    ['-0.00', '$0.00'],
    ['007', '$7.00'],
    ['12345678901234567890.123456789', '$12,345,678,901,234,567,890.123456789'],
  ])('shows %s exactly', (amount, want) => {
    expect(dollars(amount)).toBe(want);
  });

  it.each(['', 'x', '1e5', '.5', '1,000', '--1', 'NaN'])('leaves %j, which is no decimal, as it is', (amount) => {
    expect(dollars(amount)).toBe(amount);
  });
});

describe('aligned', () => {
  it.each([
    ['5', '$5.00'],
    ['-0.116', '-$0.116000'],
    ['0.0000001', '$0.000000100'],
    ['1234.000000001', '$1,234.000000001'],
    ['0.0000000001', '$0.0000000001'],
    ['x', 'x'],
  ])('shows %s with two, six or nine digits', (amount, want) => {
    expect(aligned(amount)).toBe(want);
  });
});

describe('cents', () => {
  it.each([
    ['2.899984827', '$2.89'],
    ['0', '$0.00'],
    ['0.004', 'below $0.01'],
    ['-0.004', '-$0.004'],
    ['1234.5', '$1,234.50'],
    ['x', 'x'],
  ])('shows %s as %s', (amount, want) => {
    expect(cents(amount)).toBe(want);
  });
});

describe('isNegative', () => {
  it.each([
    ['-0.000000001', true],
    ['-5', true],
    ['-0.00', false],
    ['0', false],
    ['5', false],
    ['x', false],
  ])('of %s', (amount, want) => {
    expect(isNegative(amount)).toBe(want);
  });
});

describe('isZero', () => {
  it.each([
    ['0', true],
    ['-0.000', true],
    ['0.000000001', false],
    ['10', false],
    ['x', false],
  ])('of %s', (amount, want) => {
    expect(isZero(amount)).toBe(want);
  });
});

describe('units', () => {
  it.each([
    ['1500000', 6, '1.5'],
    ['1', 18, '0.000000000000000001'],
    ['0', 18, '0'],
    ['-2500', 3, '-2.5'],
    ['1234567000000', 6, '1,234,567'],
    ['123456789012345678901234567890', 18, '123,456,789,012.34567890123456789'],
    ['5', 0, '5'],
    ['1.5', 6, '1.5'],
    ['x', 6, 'x'],
  ])('shows %s with %d decimals', (amount, decimals, want) => {
    expect(units(amount, decimals)).toBe(want);
  });
});
