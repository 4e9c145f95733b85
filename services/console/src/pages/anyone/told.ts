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

/** Stands for a figure of the whole service that would tell what one consumer did, where there is room for a word. */
export const withheld = 'withheld';

/** Why it is withheld. */
export const whyWithheld = 'fewer than 5 paying consumers, so it would show what one of them did';

/** A number of the whole service in words. It is null where few consumers paid. */
export function ofAll(value: number | null | undefined, show: (value: number) => string): string {
  return value === null ? withheld : told(value, show);
}

/** How the requests of a day compare with those of the day before, in words. Either is null where it is withheld. */
export function change(now: number | null, before: number | null): string {
  if (now === null) return whyWithheld;
  if (before === null) return 'the 24 hours before are withheld';
  if (before === 0) return 'none to compare with in the 24 hours before';
  const percent = Math.round(((now - before) / before) * 100);
  if (percent === 0) return 'as many as in the 24 hours before';
  return `${Math.abs(percent)}% ${percent > 0 ? 'more' : 'fewer'} than in the 24 hours before`;
}
