// Limits of plans in words.

import { dollars } from '../../format/money';
import { count } from '../../format/quantity';

/** A limit of a plan, used or not. */
interface Limit {
  kind: string;
  period: string;
}

const kinds: Record<string, string> = {
  requests: 'Requests',
  images: 'Images',
  tokens: 'Tokens',
  list_price: 'Inference at list prices',
  concurrent: 'Requests at a time',
};

export function labelOf(limit: Limit): string {
  const kind = kinds[limit.kind] ?? limit.kind;
  return limit.period === 'none' ? kind : `${kind} a ${limit.period}`;
}

export function amountOf(limit: Limit, value: number): string {
  return limit.kind === 'list_price' ? dollars(value.toFixed(9)) : count(value);
}

const units: Record<string, string> = {
  per_1m_tokens: 'text and embeddings',
  per_image: 'images',
  per_minute: 'audio',
};

/** What a plan covers: `text and embeddings, images of the tiers free and standard`. */
export function coverageOf(covers: { pricing_unit: string; tiers: string[] }[]): string {
  if (covers.length === 0) return 'Nothing';
  const byTiers = new Map<string, string[]>();
  for (const { pricing_unit: unit, tiers } of covers) {
    const of = tiers.join(', ');
    byTiers.set(of, [...(byTiers.get(of) ?? []), units[unit] ?? unit]);
  }
  const text = [...byTiers].map(([tiers, named]) => `${named.join(', ')} (tiers: ${tiers})`).join('; ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The tiers of which requests count, where others are covered and take nothing. */
export function countsNote(limit: Limit & { tiers: string[] }): string {
  const allowance = limit.kind === 'tokens' || limit.kind === 'list_price';
  return allowance ? ` of the ${limit.tiers.length === 1 ? 'tier' : 'tiers'} ${limit.tiers.join(', ')}` : '';
}
