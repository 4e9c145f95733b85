// Statuses of providers in words.

import type { Schemas } from '../../api/client';
import type { Tone } from '../../ui/text';

export type Provider = Schemas['Provider'];
export type Status = Provider['status'];

export const statuses: Status[] = [
  'PROVIDER_STATUS_UNDER_REVIEW',
  'PROVIDER_STATUS_PENDING',
  'PROVIDER_STATUS_APPROVED',
  'PROVIDER_STATUS_ACTIVATING',
  'PROVIDER_STATUS_ACTIVE',
  'PROVIDER_STATUS_SUSPENDED',
  'PROVIDER_STATUS_REJECTED',
];

const tones: Record<Status, Tone> = {
  PROVIDER_STATUS_PENDING: 'neutral',
  PROVIDER_STATUS_UNDER_REVIEW: 'warning',
  PROVIDER_STATUS_APPROVED: 'busy',
  PROVIDER_STATUS_ACTIVATING: 'busy',
  PROVIDER_STATUS_ACTIVE: 'good',
  PROVIDER_STATUS_SUSPENDED: 'bad',
  PROVIDER_STATUS_REJECTED: 'bad',
};

/** `PROVIDER_STATUS_UNDER_REVIEW` as `under review`. */
export function statusWord(status: string): string {
  return status
    .replace(/^PROVIDER_STATUS_/, '')
    .toLowerCase()
    .replaceAll('_', ' ');
}

export function toneOf(status: Status): Tone {
  return tones[status];
}

/** The status as it is shown: an active provider that is not connected is offline, and one in its first day is in probation. */
export function shownStatus(provider: Provider): { word: string; tone: Tone } {
  if (provider.status !== 'PROVIDER_STATUS_ACTIVE')
    return { word: statusWord(provider.status), tone: toneOf(provider.status) };
  if (!provider.online) return { word: 'offline', tone: 'bad' };
  return provider.probation_ends_at === null
    ? { word: 'active', tone: 'good' }
    : { word: 'active, probation', tone: 'good' };
}

/** What activation still needs; empty where everything is there. */
export function missingOf(provider: Provider): string[] {
  const facts = provider.qualification;
  if (facts === null || provider.vendor || provider.reference) return [];
  return [
    ...(facts.collateral_confirmed ? [] : ['collateral']),
    ...(facts.gpu_eligible ? [] : ['GPU']),
    ...(facts.benchmark_passed ? [] : ['benchmark']),
  ];
}

const meanings: Record<Status, string> = {
  PROVIDER_STATUS_PENDING: 'It connects and serves nobody, because something that activation needs is missing.',
  PROVIDER_STATUS_UNDER_REVIEW: 'It asked for a review and waits for an operator’s decision.',
  PROVIDER_STATUS_APPROVED: 'An operator agreed. It becomes active once its collateral is there.',
  PROVIDER_STATUS_ACTIVATING: 'Its collateral is there. A machine or a benchmark is missing.',
  PROVIDER_STATUS_ACTIVE: 'It serves and earns.',
  PROVIDER_STATUS_SUSPENDED:
    'It cannot connect. What settlement began ends by itself; what an operator began an operator ends.',
  PROVIDER_STATUS_REJECTED: 'It cannot connect. It may ask for another review 7 days after the rejection.',
};

export function meaningOf(status: Status): string {
  return meanings[status];
}

/** `SUSPENSION_CAUSE_CARD` as `card`. */
export function causeWord(cause: string): string {
  return cause.replace(/^SUSPENSION_CAUSE_/, '').toLowerCase();
}
