import type { Schemas } from '../../api/client';
import type { Tone } from '../../ui/text';

export const webhookKinds = [
  { value: 'account.balance_low', label: 'The balance is low' },
  { value: 'payout.confirmed', label: 'A payout is confirmed' },
  { value: 'provider.status_changed', label: "Your provider's status changed" },
  { value: 'penalty.created', label: 'Your provider got a penalty' },
];

const notes: Record<string, string> = {
  by_owner: 'You turned it off.',
  gone: 'Its server answered 410, which means that it wants no more events.',
  failing: 'It failed for days.',
};

export function webhookState(webhook: Schemas['Webhook']): { word: string; tone: Tone; text: string } {
  if (!webhook.enabled)
    return {
      word: 'Off',
      tone: webhook.note === 'by_owner' ? 'neutral' : 'bad',
      text: notes[webhook.note] ?? webhook.note,
    };
  if (webhook.failing_since !== null)
    return { word: 'Failing', tone: 'warning', text: 'Every try fails since the moment below.' };
  return { word: 'On', tone: 'good', text: 'The last delivery was taken, or none was due yet.' };
}

export const deliveryTones: Record<string, Tone> = {
  waiting: 'busy',
  delivered: 'good',
  failed: 'bad',
  dropped: 'warning',
};

const problems: Record<string, string> = {
  status: 'It answered with another status than 200 to 299.',
  address: 'The address may not be called.',
  tls: 'The certificate is not good.',
  timeout: 'It did not answer in time.',
  connection: 'It could not be connected.',
};

export function problemText(problem: string): string {
  return problem === '' ? '–' : (problems[problem] ?? problem);
}
