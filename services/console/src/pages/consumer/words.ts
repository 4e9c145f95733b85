// The API's words for people. A word that is not known here is shown as it is.

import type { Tone } from '../../ui/text';

const billing: Record<string, string> = {
  payg: 'Credit',
  plan: 'Plan',
  free: 'Free model',
  playground: 'Playground',
  orphan: 'Paid by the platform',
};

/** Who paid for a request. */
export function billingWord(type: string): string {
  return billing[type] ?? type;
}

const endings: Record<string, string> = {
  completed: 'The answer was complete.',
  client_gone: 'The client closed the connection before the answer was complete.',
  provider_lost: 'The provider was lost in the middle of the answer.',
  truncated: 'The answer was cut at its bound.',
  engine_error: 'The engine failed in the middle of the answer.',
  wall_limit: 'The answer took longer than a request may.',
  platform_lost: 'The platform failed in the middle of the answer.',
};

export function endingText(ending: string): string {
  return ending === '' ? 'Nothing was served.' : (endings[ending] ?? ending);
}

const fallbacks: Record<string, string> = {
  requested_provider_unavailable: 'The requested provider was not available, so another provider served.',
  requested_provider_failed: 'The requested provider failed before it sent any content, so another provider served.',
};

export function fallbackText(reason: string): string {
  return fallbacks[reason] ?? reason;
}

const results: Record<string, { text: string; tone: Tone }> = {
  served: { text: 'Served', tone: 'good' },
  failed: { text: 'Failed', tone: 'bad' },
  timeout: { text: 'Timed out', tone: 'bad' },
  busy: { text: 'Busy', tone: 'warning' },
  refused: { text: 'Refused', tone: 'warning' },
  client_gone: { text: 'Client left', tone: 'neutral' },
  unavailable: { text: 'Unavailable', tone: 'warning' },
};

export function attemptResult(result: string): { text: string; tone: Tone } {
  return results[result] ?? { text: result, tone: 'neutral' };
}

/** The address of another page, if it is one that a browser may go to. */
export function outside(url: string): string | undefined {
  return /^https?:\/\//.test(url) ? url : undefined;
}

export const keyTones: Record<string, Tone> = { active: 'good', expired: 'warning', revoked: 'neutral' };

const periods: Record<string, string> = { none: 'in all', day: 'a day', week: 'a week', month: 'a month' };

/** The window of a bound, for example `a day`. */
export function periodWord(period: string): string {
  return periods[period] ?? period;
}
