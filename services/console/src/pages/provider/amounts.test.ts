import { describe, expect, it } from 'vitest';

import { isBelow, less, nano, usd, usdOfDigits } from './amounts';

describe('amounts', () => {
  it('are exact to the nano-dollar', () => {
    expect(nano('0.1')).toBe(100_000_000n);
    expect(nano('-12.000000001')).toBe(-12_000_000_001n);
    expect(usd(-1_500_000_000n)).toBe('-1.500000000');
    expect(less('9007199254740993.1', '0.1')).toBe('9007199254740993.000000000');
  });

  it('refuse what is no amount', () => {
    for (const text of ['', 'abc', '1e3', '1,000', '0x10', '.5', '1.0000000001']) expect(nano(text)).toBeNull();
    expect(less('ten', '1')).toBeNull();
  });

  it('compare', () => {
    expect(isBelow('9.99', '10')).toBe(true);
    expect(isBelow('10', '10')).toBe(false);
    expect(isBelow('none', '10')).toBe(false);
  });

  it('read digits', () => {
    expect(usdOfDigits('1234567890')).toBe('1.234567890');
    expect(usdOfDigits('one')).toBe('one');
  });
});
