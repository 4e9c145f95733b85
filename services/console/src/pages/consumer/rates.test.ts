import { describe, expect, it } from 'vitest';

import { atATime, categoryRates } from './rates';

const limits = {
  requests_per_minute: 0,
  concurrent_requests: 0,
  own_day_cap_usd_str: '',
  own_month_cap_usd_str: '',
  day: null,
  month: null,
  defaults: {
    categories: [
      { category: 'llm', requests_per_minute: 200 },
      { category: 'image', requests_per_minute: -1 },
    ],
    zero_priced_requests_per_minute: 10,
    concurrent_requests: 100,
  },
};

describe('the limits of an account', () => {
  it('are the defaults where an operator has set nothing', () => {
    expect(categoryRates(limits)).toEqual([
      { category: 'llm', rate: '200' },
      { category: 'image', rate: 'No limit' },
    ]);
    expect(atATime(limits)).toBe('100');
  });

  it('take the place of every default', () => {
    const own = { ...limits, requests_per_minute: 5, concurrent_requests: -1 };
    expect(categoryRates(own).map((one) => one.rate)).toEqual(['5', '5']);
    expect(atATime(own)).toBe('No limit');
  });

  it('are not named where the service does not tell the defaults', () => {
    const untold = { ...limits, defaults: null };
    expect(categoryRates(untold)).toEqual([]);
    expect(atATime(untold)).toBe('The default');
  });
});
