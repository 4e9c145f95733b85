import type { Schemas } from '../../api/client';
import type { Tone } from '../../ui/text';

export type Penalty = Schemas['Penalty'];
export type PenaltyPart = Schemas['PenaltyPart'];
export type PenaltyState = Penalty['state'];

/** Those that wait for an operator come first. */
export const penaltyStates: PenaltyState[] = [
  'PENALTY_STATE_APPEALED',
  'PENALTY_STATE_PROPOSED',
  'PENALTY_STATE_UPHELD',
  'PENALTY_STATE_REVERSED',
  'PENALTY_STATE_EXECUTED',
];

/** `PENALTY_STATE_APPEALED` as `appealed`. */
export function stateWord(state: string): string {
  return state.replace(/^PENALTY_STATE_/, '').toLowerCase();
}

const tones: Record<PenaltyState, Tone> = {
  PENALTY_STATE_PROPOSED: 'busy',
  PENALTY_STATE_APPEALED: 'warning',
  PENALTY_STATE_UPHELD: 'bad',
  PENALTY_STATE_REVERSED: 'neutral',
  PENALTY_STATE_EXECUTED: 'bad',
};

export function penaltyTone(state: PenaltyState): Tone {
  return tones[state];
}

export const stateMeanings: Record<PenaltyState, string> = {
  PENALTY_STATE_PROPOSED: 'The provider may appeal. Without an appeal it is executed by itself when the time is over.',
  PENALTY_STATE_APPEALED: 'The provider has appealed. The clock stands still until an operator decides.',
  PENALTY_STATE_UPHELD: 'The appeal was refused. It is executed by itself within seconds.',
  PENALTY_STATE_REVERSED: 'It is void, for good.',
  PENALTY_STATE_EXECUTED: 'The share is forfeited, for good.',
};
