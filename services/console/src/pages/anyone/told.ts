// Figures of the service in words.

/** A figure in words; a dash where it is not told, because it would be of too few requests. */
export function told(value: number | null | undefined, show: (value: number) => string): string {
  return value === null || value === undefined ? '–' : show(value);
}

/** How the requests of a day compare with those of the day before, in words. */
export function change(now: number, before: number): string {
  if (before === 0) return 'none in the 24 hours before';
  const percent = Math.round(((now - before) / before) * 100);
  if (percent === 0) return 'as many as in the 24 hours before';
  return `${Math.abs(percent)}% ${percent > 0 ? 'more' : 'fewer'} than in the 24 hours before`;
}
