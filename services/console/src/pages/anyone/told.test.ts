import { describe, expect, it } from 'vitest';

import { change, ofAll, ofMany, told, tooFew, whyWithheld, withheld } from './told';

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

  it('of the whole service say that they are withheld, and show a 0', () => {
    expect(ofAll(null, String)).toBe(withheld);
    expect(ofAll(undefined, String)).toBe('–');
    expect(ofAll(0, String)).toBe('0');
  });

  it('are not compared where one is withheld', () => {
    expect(change(null, 5)).toBe(whyWithheld);
    expect(change(null, null)).toBe(whyWithheld);
    expect(change(5, null)).toBe('the 24 hours before are withheld');
  });

  it('compare a day with the day before', () => {
    expect(change(5, 0)).toBe('none to compare with in the 24 hours before');
    expect(change(100, 100)).toBe('as many as in the 24 hours before');
    expect(change(150, 100)).toBe('50% more than in the 24 hours before');
    expect(change(0, 100)).toBe('100% fewer than in the 24 hours before');
  });
});
