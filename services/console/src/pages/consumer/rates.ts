import type { Schemas } from '../../api/client';
import { count } from '../../format/quantity';

type ConsumerLimits = Schemas['ConsumerLimits'];

/** A rate or a number of requests as the API has it: 0 is the default, and -1 is without a limit. */
export function limitText(limit: number, byDefault: string): string {
  if (limit === 0) return byDefault;
  return limit < 0 ? 'No limit' : count(limit);
}

/** The rate of each key for each category of models, with the account's own in the place of the default. */
export function categoryRates(limits: ConsumerLimits): { category: string; rate: string }[] {
  const rates = limits.defaults?.categories ?? [];
  return rates.map(({ category, requests_per_minute: byDefault }) => ({
    category,
    rate: limitText(limits.requests_per_minute, limitText(byDefault, 'The default')),
  }));
}

/** How many requests run at a time, of all keys together. */
export function atATime(limits: ConsumerLimits): string {
  return limitText(limits.concurrent_requests, limitText(limits.defaults?.concurrent_requests ?? 0, 'The default'));
}
