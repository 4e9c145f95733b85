// Why a sign-in or a link at another site failed, in words. The API sends the browser here with the code of the
// error in the address (`?error=`), which anybody may write, so that no text of the address is ever shown.

const sentences: Readonly<Record<string, string>> = {
  invalid_credentials:
    'The sign-in at the other site does not count: it did not begin in this browser, took longer than ten minutes, was declined, or was used before. Begin again.',
  invalid_request: 'The other site sent an answer that cannot be read. Begin again.',
  issuer_not_found: 'Nobody signs in here by that site. Choose another way.',
  service_unavailable: 'The other site, or a part of this one, does not answer. Try again in a minute.',
  rate_limit_exceeded: 'There were too many sign-ins from your network. Try again later.',
  origin_not_allowed: 'A sign-in begins on this page, not on a page of another site. Begin again.',
  already_exists: 'Another user signs in by this account of the other site, so that it was not linked to yours.',
  fresh_sign_in_required:
    'Linking takes a sign-in in the last 15 minutes, and yours is older. Sign out and in again, then link once more.',
  email_not_confirmed: 'Confirm your e-mail address first, then link the account of the other site once more.',
  transition_not_allowed: 'You have as many ways to sign in as a user may have. Unlink one first.',
  user_not_found: 'Nobody here has this account of the other site.',
  account_frozen: 'This account is frozen. Write to the operators.',
};

/** The sentence for the code of an error; null where the address has none. */
export function refusalOf(code: string | null): string | null {
  if (code === null || code === '') return null;
  return Object.hasOwn(sentences, code) ? (sentences[code] ?? null) : unknown;
}

const unknown = 'The sign-in at the other site failed. Begin again, or choose another way.';
