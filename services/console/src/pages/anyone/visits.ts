// What a visitor without a key has left of the playground's hour, as headers of an answer say it.

export interface Visits {
  limit: number;
  remaining: number;
  /** When the oldest visit no longer counts: an ISO moment. Null where the answer does not say. */
  resets: string | null;
}

/** Reads the headers; null where they say nothing of it. */
export function visitsOf(headers: Headers, now: number): Visits | null {
  const limit = wholeNumber(headers.get('X-Ratelimit-Limit-Requests'));
  const remaining = wholeNumber(headers.get('X-Ratelimit-Remaining-Requests'));
  if (limit === null || remaining === null) return null;
  const reset = goDuration(headers.get('X-Ratelimit-Reset-Requests') ?? '');
  return { limit, remaining, resets: reset === null ? null : new Date(now + reset * 1000).toISOString() };
}

const unitSeconds: Record<string, number> = { h: 3_600, m: 60, s: 1, ms: 1e-3, µs: 1e-6, us: 1e-6, ns: 1e-9 };

/** Reads a duration as Go writes it, such as `1h0m2.5s`, in seconds; null where it is none. */
export function goDuration(text: string): number | null {
  if (!/^(?:\d+(?:\.\d+)?(?:h|ms|m|s|µs|us|ns))+$/.test(text)) return null;
  let seconds = 0;
  for (const [, value, unit] of text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s|µs|us|ns)/g)) {
    seconds += Number(value) * (unitSeconds[unit ?? ''] ?? 0);
  }
  return seconds;
}

function wholeNumber(text: string | null): number | null {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}
