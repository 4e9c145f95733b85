import { count } from '../../format/quantity';

/** A rate or a number of requests as the API has it: 0 is the default, and -1 is without a limit. */
export function limitText(limit: number, byDefault: string): string {
  if (limit === 0) return byDefault;
  return limit < 0 ? 'No limit' : count(limit);
}
