import { describe, expect, it } from 'vitest';

import { coverage, isBelow, less, nano, sum, usd, whole } from './amounts';

describe('nano', () => {
  it('counts dollars exactly', () => {
    expect(nano('1')).toBe(1_000_000_000n);
    expect(nano('-0.000000001')).toBe(-1n);
    expect(nano('9007199.254740993')).toBe(9_007_199_254_740_993n);
    expect(nano(' 12.50 ')).toBe(12_500_000_000n);
  });

  it('takes nothing that is no amount', () => {
    for (const text of ['', '.', '.5', '1,5', '1e3', '0x1', '--1', '1.0000000001', 'NaN'])
      expect(nano(text)).toBeNull();
  });
});

describe('usd', () => {
  it('writes nano-dollars, also from digits', () => {
    expect(usd(-1n)).toBe('-0.000000001');
    expect(usd('1234500000000')).toBe('1234.500000000');
    expect(usd('none')).toBe('none');
  });
});

describe('sums', () => {
  it('adds without rounding', () => {
    expect(sum(['0.1', '0.2'])).toBe('0.300000000');
    expect(sum([])).toBe('0.000000000');
    expect(less('10000.00', '10000.000000001')).toBe('-0.000000001');
    expect(less('9007199254740993.1', '0.1')).toBe('9007199254740993.000000000');
  });

  it('subtracts nothing that is no amount', () => {
    expect(less('ten', '1')).toBeNull();
  });

  it('compares exactly', () => {
    expect(isBelow('9.99', '10')).toBe(true);
    expect(isBelow('10', '10')).toBe(false);
    expect(isBelow('10000', '10000.000000001')).toBe(true);
    expect(isBelow('none', '10')).toBe(false);
  });
});

describe('coverage', () => {
  it('is a share of what is owed, rounded down', () => {
    expect(coverage('100', '100')).toBe('100.00%');
    expect(coverage('99999', '100000')).toBe('99.99%');
    expect(coverage('0', '5')).toBe('0.00%');
    expect(coverage('1', '100')).toBe('1.00%');
    expect(coverage('5', '0')).toBe('–');
    expect(coverage('10', '1')).toBe('1000.00%');
    expect(coverage('11', '1')).toBe('over 1,000%');
  });
});

describe('whole', () => {
  it('takes digits alone', () => {
    expect(whole('12')).toBe(12n);
    expect(whole('1.2')).toBeNull();
    expect(whole('')).toBeNull();
  });
});
