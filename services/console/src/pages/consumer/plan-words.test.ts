import { describe, expect, it } from 'vitest';

import { amountOf, countsNote, coverageOf, labelOf } from './plan-words';

describe('limits of plans', () => {
  it('are named by what they count and when', () => {
    expect(labelOf({ kind: 'requests', period: 'minute' })).toBe('Requests a minute');
    expect(labelOf({ kind: 'concurrent', period: 'none' })).toBe('Requests at a time');
    expect(labelOf({ kind: 'odd', period: 'week' })).toBe('odd a week');
  });

  it('have amounts in dollars or in numbers', () => {
    expect(amountOf({ kind: 'list_price', period: 'month' }, 24)).toBe('$24.00');
    expect(amountOf({ kind: 'tokens', period: 'week' }, 40_000_000)).toBe('40,000,000');
  });

  it('say which tiers draw on an allowance', () => {
    expect(countsNote({ kind: 'tokens', period: 'week', tiers: ['standard'] })).toBe(' of the tier standard');
    expect(countsNote({ kind: 'requests', period: 'day', tiers: ['free', 'standard'] })).toBe('');
  });
});

describe('what a plan covers', () => {
  it('is told once for all that have the same tiers', () => {
    const tiers = ['free', 'standard'];
    expect(
      coverageOf([
        { pricing_unit: 'per_1m_tokens', tiers },
        { pricing_unit: 'per_image', tiers },
        { pricing_unit: 'per_minute', tiers: ['free'] },
      ]),
    ).toBe('Text and embeddings, images (tiers: free, standard); audio (tiers: free)');
    expect(coverageOf([])).toBe('Nothing');
  });
});
