// What words of the API mean for a provider, and how they are to be taken.

import type { Tone } from '../../ui/text';

/** A text of the API without the route that it names for programs: `Appeal (POST /…).` is `Appeal.` */
export function withoutRoutes(text: string): string {
  return text.replace(/ ?\((?:GET|POST|PUT|PATCH|DELETE)\s[^)]*\)/g, '');
}

/** Lower-case words of the API at the beginning of a sentence. */
export function sentence(text: string): string {
  const plain = withoutRoutes(text).trim();
  if (plain === '') return '';
  return plain.charAt(0).toUpperCase() + plain.slice(1) + (/[.!?]$/.test(plain) ? '' : '.');
}

export const statusTones: Record<string, Tone> = {
  pending: 'warning',
  under_review: 'busy',
  approved: 'busy',
  activating: 'busy',
  active: 'good',
  offline: 'warning',
  suspended: 'bad',
  rejected: 'bad',
};

/** What the verifier lets a model have. */
export const lanes: Record<string, { word: string; tone: Tone }> = {
  main: { word: 'any request', tone: 'good' },
  probe: { word: 'few requests', tone: 'warning' },
  shut: { word: 'no requests', tone: 'bad' },
};

/** Why a model does not get any request. */
export const laneReasons: Record<string, string> = {
  benchmark: 'It has no benchmark that counts.',
  notice: 'A notice stands: answers differ from what is stated.',
  unjudged: 'Answers cannot be compared with those of the model.',
  inherited: 'An account of the same owner, which was removed, had it so.',
};

/** The standing of a model's benchmarks. */
export const benchmarkStandings: Record<string, { word: string; tone: Tone }> = {
  unproven: { word: 'none passed yet', tone: 'neutral' },
  proven: { word: 'passed', tone: 'good' },
  warned: { word: 'failed once', tone: 'warning' },
  fined: { word: 'failed twice in a row', tone: 'bad' },
  removed: { word: 'failed three times in a row', tone: 'bad' },
  lapsed: { word: 'expired', tone: 'warning' },
};

/** What a kind of challenge or of evidence looks at. */
const kinds: Record<string, string> = {
  greedy: 'answers at temperature 0',
  sampled: 'sampled answers',
  logprobs: 'log-probabilities',
  recall: 'recall within the context window',
  replay: 'the same question again',
  measure: 'size of the context window',
  check: 'size of the context window',
  embedding: 'vectors of embeddings',
  fingerprint: 'files of the model',
  files: 'files of the model',
  usage: 'claimed tokens and endings',
  visible: 'answers to visible challenges',
  benchmark: 'failed benchmark',
};

/** What a kind looks at; the API's own word for one that is not known here. */
export function kindWord(kind: string): string {
  return kinds[kind] ?? kind.replaceAll('_', ' ');
}

/** Why a benchmark was not passed, or could not be judged. */
export const findings: Record<string, string> = {
  disturbed: 'Other load disturbed the measurement.',
  too_little_measured: 'Too little could be measured.',
  slow_tokens: 'Tokens came too slowly.',
  slow_first_token: 'The first token came too late.',
  unanswered: 'Questions stayed unanswered.',
  small_window: 'The context window holds less than what is stated.',
  other_answers: 'Answers differ from those of the stated model.',
  impossible_facts: 'What the machine reports cannot be.',
  repeated_question: 'A question was asked twice.',
  uncalibrated: 'There is no calibration for this model yet, so its answers were not judged.',
};

export const benchmarkResults: Record<string, Tone> = { running: 'busy', pass: 'good', fail: 'bad', void: 'neutral' };

/** A date of the API that is still ahead. */
export function isAhead(at: string | null | undefined, now: number): at is string {
  return at !== null && at !== undefined && at !== '' && Date.parse(at) > now;
}

/** Until when the owner's wallet is shown as new: for as long as a new address cools. Null where no wallet owns. */
export function boundNewUntil(me: { owner_proven: boolean; owner_bound_at: string | null }): string | null {
  if (!me.owner_proven || me.owner_bound_at === null) return null;
  return new Date(Date.parse(me.owner_bound_at) + 48 * 3_600_000).toISOString();
}
