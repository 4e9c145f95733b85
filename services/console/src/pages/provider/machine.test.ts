import { describe, expect, it } from 'vitest';

import { changes, labelOf, leads, places } from './machine';

const names = places.map((place) => place.name);

describe('the status machine', () => {
  it('has every status of the API once', () => {
    expect([...names].sort()).toEqual([
      'activating',
      'active',
      'approved',
      'offline',
      'pending',
      'rejected',
      'suspended',
      'under_review',
    ]);
  });

  it('numbers its changes from 1 on, and each leads from and to a status', () => {
    expect(changes.map((change) => change.n)).toEqual(changes.map((_, n) => n + 1));
    for (const change of changes) {
      expect(names).toContain(change.to);
      for (const from of change.from) expect([...names, 'any']).toContain(from);
    }
  });

  it('lets every status be left', () => {
    for (const name of names) expect(changes.some((change) => change.from.includes(name))).toBe(true);
  });

  it('leads nowhere from a status to itself', () => {
    for (const change of changes) expect(leads(change, change.to)).toBe(false);
  });

  it('names every status for people', () => {
    expect(labelOf('under_review')).toBe('Under review');
    expect(labelOf('any')).toBe('Every status');
  });
});
