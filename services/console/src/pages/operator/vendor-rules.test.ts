import { describe, expect, it } from 'vitest';

import { needsSecond, plain } from './vendor-rules';

const now = Date.parse('2026-11-29T12:00:00Z');

function paid(amount: string, counted: string, correction: string, at: string) {
  return { amount_usd_str: amount, counted_usd_str: counted, correction_usd_str: correction, paid_at: at };
}

describe('needsSecond', () => {
  it('asks for a second operator above $10,000, by amount or by count', () => {
    expect(needsSecond('10000', '', null, now)).toBe(false);
    expect(needsSecond('10000.01', '', null, now)).toBe(true);
    expect(needsSecond('9950', '10000.01', null, now)).toBe(true);
  });

  it('asks for one where the correction is above $100 and a tenth of the count', () => {
    expect(needsSecond('1100', '1000', null, now)).toBe(false);
    expect(needsSecond('600', '500', null, now)).toBe(false);
    expect(needsSecond('600.01', '500', null, now)).toBe(true);
    expect(needsSecond('899', '1000', null, now)).toBe(true);
  });

  it('adds what was paid within 24 hours, and nothing older', () => {
    const last = paid('6000', '6000', '0', '2026-11-29T00:00:00Z');
    expect(needsSecond('4000', '', last, now)).toBe(false);
    expect(needsSecond('4000.01', '', last, now)).toBe(true);
    expect(needsSecond('4000.01', '', paid('6000', '6000', '0', '2026-11-28T12:00:00Z'), now)).toBe(false);
  });

  it('says nothing of what is no amount', () => {
    expect(needsSecond('', '', null, now)).toBe(false);
    expect(needsSecond('1e9', '', null, now)).toBe(false);
  });
});

describe('plain', () => {
  it('is what a form takes', () => {
    expect(plain('12345.500000000')).toBe('12345.50');
  });
});
