import { describe, expect, it } from 'vitest';

import { filterDefaults, instant, problemOf } from './entries-filter';

const time = { since: '2026-11-01T00:00', until: '2026-12-02T00:00' };
const account = { account_kind: 'l:provider:payable', owner_id: 'p1' };

describe('problemOf', () => {
  it.each([[{ request_id: 'r1' }], [{ business_id: 'b1' }], [account], [{ ...account, ...time }], [time]])(
    'lets %j be asked',
    (filter) => {
      expect(problemOf({ ...filterDefaults, ...filter })).toBe('');
    },
  );

  it.each([
    [{}],
    [{ request_id: 'r1', business_id: 'b1' }],
    [{ account_kind: 'l:provider:payable' }],
    [{ ...time, owner_id: 'p1' }],
    [{ since: time.since }],
    [{ until: time.until }],
    [{ since: time.until, until: time.since }],
    [{ since: time.since, until: '2026-12-02T00:01' }],
    [{ ...time, request_id: 'r1' }],
  ])('does not let %j be asked', (filter) => {
    expect(problemOf({ ...filterDefaults, ...filter })).not.toBe('');
  });
});

describe('instant', () => {
  it('reads a time of a form as UTC', () => {
    expect(instant('2026-11-01T10:00')).toBe('2026-11-01T10:00:00.000Z');
    expect(instant('')).toBe('');
  });
});
