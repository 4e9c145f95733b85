// States of payouts and what keeps them, in words.

import type { Schemas } from '../../api/client';
import { units } from '../../format/money';
import type { Tone } from '../../ui/text';

export type Payout = Schemas['Payout'];
type PayoutState = Payout['state'];

export const payoutStates = [
  'PAYOUT_STATE_REQUESTED',
  'PAYOUT_STATE_APPROVED',
  'PAYOUT_STATE_SIGNING',
  'PAYOUT_STATE_SUBMITTED',
  'PAYOUT_STATE_CONFIRMED',
  'PAYOUT_STATE_FAILED',
  'PAYOUT_STATE_CANCELLED',
] as const satisfies PayoutState[];

/** A state as people say it: `requested`. */
export function stateWord(state: PayoutState): string {
  return state.replace('PAYOUT_STATE_', '').toLowerCase();
}

/** The state of a word in the address; undefined for any other word. */
export function stateOf(word: string): PayoutState | undefined {
  return payoutStates.find((state) => stateWord(state) === word);
}

export function stateTone(state: PayoutState): Tone {
  switch (state) {
    case 'PAYOUT_STATE_CONFIRMED':
      return 'good';
    case 'PAYOUT_STATE_FAILED':
      return 'bad';
    case 'PAYOUT_STATE_CANCELLED':
      return 'neutral';
    default:
      return 'busy';
  }
}

/** What keeps a payout, by the word of the API. */
const waits: Record<string, string> = {
  approval: 'An operator must approve it.',
  screening: 'The screening of the address does not answer. It goes on by itself.',
  denied: 'Screening denies the address. It stays until the list changes or somebody cancels it.',
  books: 'The ledger has not set the money aside yet. It goes on by itself.',
  books_differ: 'The ledger has another amount in flight. Look at adoption on the page of chains.',
  chain: 'The chain or the signer does not answer. It goes on by itself.',
  chain_halted: 'Sending on the chain is halted. See sending halts on this page.',
  reserves_short: 'Reserves are short, so no payout is sent.',
  hot_wallet_low: 'The hot wallet holds too little. Fill it from the treasury.',
  gas_low: 'The hot wallet has too few coins for gas. Fill it from the treasury.',
  quote: 'There is no good price of the coin now. It goes on by itself.',
  turn: 'Other transactions of the wallet go first. It goes on by itself.',
};

export function waitsFor(payout: Payout): string {
  if (payout.ending) return 'It is ending: its money is on its way back to the provider.';
  return payout.waiting === '' ? '' : (waits[payout.waiting] ?? payout.waiting.replaceAll('_', ' '));
}

/** What is sent. Without a rate it is USDC, which has six decimals. Of a coin the digits are those of its smallest unit. */
export function sent(payout: Payout): string {
  if (payout.amount === '') return '–';
  if (payout.rate_usd_str === '') return `${units(payout.amount, 6)} USDC`;
  return `${units(payout.amount, 18)} of the chain’s coin`;
}
