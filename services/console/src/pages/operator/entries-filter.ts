// Which filters of ledger entries go together, as the ledger has it (billing-ledger/internal/entries).

export const filterDefaults = {
  account_kind: '',
  owner_id: '',
  request_id: '',
  business_id: '',
  since: '',
  until: '',
};

export type EntriesFilter = typeof filterDefaults;

const longest = 31 * 86_400_000;

/** A moment of the form in RFC 3339, read as UTC; empty for none. */
export function instant(local: string): string {
  const at = Date.parse(`${local}Z`);
  return Number.isNaN(at) ? '' : new Date(at).toISOString();
}

/** Why the filters find nothing; empty when the ledger answers them. */
export function problemOf(f: EntriesFilter): string {
  const ways = [f.request_id, f.business_id, f.account_kind].filter((text) => text !== '').length;
  const [since, until] = [Date.parse(`${f.since}Z`), Date.parse(`${f.until}Z`)];
  const timed = !Number.isNaN(since) && !Number.isNaN(until);
  if (ways > 1) return 'Give one of account, request and business id.';
  if ((f.account_kind === '') !== (f.owner_id === '')) return 'An account is found by its kind and its owner together.';
  if (Number.isNaN(since) !== Number.isNaN(until)) return 'Give both times, or none.';
  if (ways === 0 && !timed) return 'Give an account with its owner, a request, a business id, or a time.';
  if (timed && f.account_kind === '' && ways > 0) return 'A time goes with an account, or stands alone.';
  if (timed && (until <= since || until - since > longest)) return 'The time ends after it begins, within 31 days.';
  return '';
}
