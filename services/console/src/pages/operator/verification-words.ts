// Words of the verifier, and how they are to be taken.

import type { Tone } from '../../ui/text';

const levels: Record<string, Tone> = {
  normal: 'good',
  watch: 'busy',
  notice: 'warning',
  confirm: 'warning',
  penalty: 'bad',
};
const lanes: Record<string, Tone> = { main: 'good', probe: 'warning', shut: 'bad' };
const benchmarks: Record<string, Tone> = {
  unproven: 'neutral',
  proven: 'good',
  warned: 'warning',
  fined: 'bad',
  removed: 'bad',
  lapsed: 'warning',
};

export const levelNames = ['normal', 'watch', 'notice', 'confirm', 'penalty'];

export function levelTone(level: string): Tone {
  return levels[level] ?? 'neutral';
}

export function laneTone(lane: string): Tone {
  return lanes[lane] ?? 'neutral';
}

export function benchmarkTone(benchmark: string): Tone {
  return benchmarks[benchmark] ?? 'neutral';
}

export const levelMeanings: Record<string, string> = {
  normal: 'Nothing speaks against it.',
  watch: 'It is asked more often. The provider is told nothing.',
  notice: 'The provider was told. Its window is capped, or it gets a small share of the traffic.',
  confirm: 'It is tested again with another reference.',
  penalty: 'A penalty stands until it is final.',
};

export const laneReasons: Record<string, string> = {
  benchmark: 'no benchmark counts',
  notice: 'a notice',
  unjudged: 'its answers cannot be judged, by its own doing',
  inherited: 'inherited from a removed provider',
};

export const heldReasons: Record<string, string> = {
  common_cause: 'a common cause is suspected: too many providers exceed at once',
  calibration_reaches_watch: 'the calibration reaches no further than a watch',
  penalties_off: 'penalties are off',
  waiting: 'an operator has to agree',
};

export const families: Record<string, string> = {
  greedy: 'greedy answers',
  sampled: 'sampled answers',
  logprobs: 'log-probabilities',
  recall: 'context recall',
  usage: 'usage and endings',
  files: 'files',
  visible: 'visible challenges',
};

/** Evidence in three digits. It spans many powers of ten. */
export function evidence(value: number): string {
  if (value === 0) return '0';
  return value >= 0.01 && value < 100_000
    ? value.toLocaleString('en-US', { maximumSignificantDigits: 3 })
    : value.toExponential(1);
}

/** A share of the collateral: `30%`. */
export function shareOf(basisPoints: number): string {
  return `${basisPoints / 100}%`;
}
