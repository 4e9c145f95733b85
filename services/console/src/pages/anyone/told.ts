// Figures of the service in words.

/** Stands for the figures of a model or a provider that would tell what one consumer did. */
export const tooFew = 'too few consumers to show';

/** A number of requests of a model or a provider in words. It is null where few consumers were served. */
export function ofMany(value: number | null | undefined, show: (value: number) => string): string {
  return value === null ? tooFew : told(value, show);
}

/** A figure in words; a dash where it is not told, because it would be of too few requests. */
export function told(value: number | null | undefined, show: (value: number) => string): string {
  return value === null || value === undefined ? '–' : show(value);
}

/** How the requests of a day compare with those of the day before, in words. */
export function change(now: number, before: number): string {
  if (before === 0) return 'none to compare with in the 24 hours before';
  const percent = Math.round(((now - before) / before) * 100);
  if (percent === 0) return 'as many as in the 24 hours before';
  return `${Math.abs(percent)}% ${percent > 0 ? 'more' : 'fewer'} than in the 24 hours before`;
}
