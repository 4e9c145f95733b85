import { describe, expect, it } from 'vitest';

import { boundNewUntil, isAhead, kindWord, sentence, withoutRoutes } from './words';

describe('words', () => {
  it('lose the routes that programs need', () => {
    expect(withoutRoutes('Mend it and ask for another (POST /api/v1/provider/benchmarks).')).toBe(
      'Mend it and ask for another.',
    );
    expect(withoutRoutes('Nothing: the model is served.')).toBe('Nothing: the model is served.');
  });

  it('become sentences', () => {
    expect(sentence('the machine reports no GPU')).toBe('The machine reports no GPU.');
    expect(sentence('')).toBe('');
  });

  it('keep kinds that are not known', () => {
    expect(kindWord('recall')).toBe('recall within the context window');
    expect(kindWord('some_thing')).toBe('some thing');
  });

  it('know what is ahead', () => {
    const now = Date.parse('2026-11-29T12:00:00Z');
    expect(isAhead('2026-11-29T12:00:01Z', now)).toBe(true);
    expect(isAhead('2026-11-29T12:00:00Z', now)).toBe(false);
    expect(isAhead(null, now)).toBe(false);
  });
});

describe('boundNewUntil', () => {
  it('is 48 hours after a wallet was bound', () => {
    expect(boundNewUntil({ owner_proven: true, owner_bound_at: '2026-11-29T12:00:00Z' })).toBe(
      '2026-12-01T12:00:00.000Z',
    );
  });

  it('is nothing for a wallet that is only claimed', () => {
    expect(boundNewUntil({ owner_proven: false, owner_bound_at: null })).toBeNull();
    expect(boundNewUntil({ owner_proven: false, owner_bound_at: '2026-11-29T12:00:00Z' })).toBeNull();
  });
});
