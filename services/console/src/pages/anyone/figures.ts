// Figures for people that the kit's formats have no form for.

import { dollars } from '../../format/money';

/** Bytes: `14.2 GB`. */
export function bytes(value: number): string {
  const units: [number, string][] = [
    [1e12, 'TB'],
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB'],
  ];
  for (const [size, name] of units) {
    if (value >= size) return `${(value / size).toFixed(1)} ${name}`;
  }
  return `${value} B`;
}

/** Dollars that the API estimates as a number, for people: to the cent, and small ones to three digits. */
export function estimated(usd: number): string {
  if (!Number.isFinite(usd) || usd === 0) return dollars('0');
  const digits = Math.abs(usd) >= 1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(Math.abs(usd))));
  return dollars(usd.toFixed(digits));
}
