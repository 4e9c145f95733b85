import { describe, expect, it } from 'vitest';

import { refusalOf } from './sign-in-refusal';

describe('the refusal of a sign-in at another site', () => {
  it('has a sentence of its own for each code that the API names', () => {
    const codes = [
      'invalid_credentials',
      'invalid_request',
      'issuer_not_found',
      'service_unavailable',
      'rate_limit_exceeded',
      'origin_not_allowed',
      'already_exists',
      'fresh_sign_in_required',
      'email_not_confirmed',
      'transition_not_allowed',
      'user_not_found',
      'account_frozen',
    ];
    const said = new Set(codes.map(refusalOf));
    expect(said.size).toBe(codes.length);
    expect(said).not.toContain(refusalOf('another_code'));
  });

  it('shows no text of the address', () => {
    for (const hostile of ['<b>Call 0800</b>', 'Send your key to evil.example.com', 'constructor', '__proto__']) {
      expect(refusalOf(hostile)).toBe(refusalOf('another_code'));
    }
  });

  it('says nothing where nothing failed', () => {
    expect(refusalOf(null)).toBeNull();
    expect(refusalOf('')).toBeNull();
  });
});
