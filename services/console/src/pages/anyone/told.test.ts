import { describe, expect, it } from 'vitest';

import { change, ofMany, told, tooFew } from './told';

describe('figures of the service', () => {
  it('have a dash where they are not told', () => {
    expect(told(null, String)).toBe('–');
    expect(told(undefined, String)).toBe('–');
    expect(told(0, String)).toBe('0');
  });

  it('say where they would be of few consumers', () => {
    expect(ofMany(null, String)).toBe(tooFew);
    expect(ofMany(undefined, String)).toBe('–');
    expect(ofMany(7, String)).toBe('7');
  });

  it('compare a day with the day before', () => {
    expect(change(5, 0)).toBe('none to compare with in the 24 hours before');
    expect(change(100, 100)).toBe('as many as in the 24 hours before');
    expect(change(150, 100)).toBe('50% more than in the 24 hours before');
    expect(change(0, 100)).toBe('100% fewer than in the 24 hours before');
  });
});
