// States of collateral refunds and of their parts, in words.

import type { Schemas } from '../../api/client';
import { dollars } from '../../format/money';
import type { Tone } from '../../ui/text';

export type Refund = Schemas['CollateralRefund'];
export type RefundPart = Schemas['RefundPart'];
type RefundState = Refund['state'];

export const refundStates = [
  'REFUND_STATE_ASKED',
  'REFUND_STATE_PAYING',
  'REFUND_STATE_PAID',
  'REFUND_STATE_REPAYING',
  'REFUND_STATE_CANCELLED',
] as const satisfies RefundState[];

/** A state as people say it: `asked`. */
export function stateWord(state: RefundState): string {
  return state.replace('REFUND_STATE_', '').toLowerCase();
}

/** The state of a word in the address; undefined for any other word. */
export function stateOf(word: string): RefundState | undefined {
  return refundStates.find((state) => stateWord(state) === word);
}

export function refundTone(state: RefundState): Tone {
  if (state === 'REFUND_STATE_PAID') return 'good';
  if (state === 'REFUND_STATE_CANCELLED') return 'neutral';
  return state === 'REFUND_STATE_REPAYING' ? 'warning' : 'busy';
}

/** Where a part stands, by the word of the API. */
export const partStates: Record<string, string> = {
  asked: 'the contract is to be asked',
  requested: 'the contract was asked, and waits 7 days',
  opened: 'the ledger is to set it aside',
  posted: 'on its way back to the card',
  card: 'back on the card, the ledger is to say so',
  bank: 'waits for a transfer by the bank',
  from_bank: 'paid by the bank, the ledger is to say so',
  taken_back: 'the card’s owner has it back another way, the ledger is to say so',
  done: 'done',
  cancelled: 'cancelled',
  reversed: 'nothing was paid: the card’s owner had the money back',
};

/** The parts that an operator must have the bank pay. */
export function waitsForBank(refund: Refund): RefundPart[] {
  return refund.parts.filter((part) => part.state === 'bank');
}

/** The sum of what parts pay by card, in dollars; a dash for none. */
export function cents(parts: RefundPart[]): string {
  const byCard = parts.filter((part) => part.chain_id === '0');
  if (byCard.length === 0) return '–';
  const digits = byCard
    .reduce((total, part) => total + BigInt(part.amount_cents), 0n)
    .toString()
    .padStart(3, '0');
  return dollars(`${digits.slice(0, -2)}.${digits.slice(-2)}`);
}
