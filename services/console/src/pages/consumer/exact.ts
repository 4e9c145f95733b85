// Exact arithmetic on amounts. The API writes amounts as decimal strings, and here they are whole numbers of a small
// unit, so that no sum ever passes through a floating-point number.

/** The decimals of a nano-dollar, which is the ledger's unit. */
export const nanoPlaces = 9;

/** A decimal string as a whole number of units of 10^-places; null where it is none or has finer digits. */
export function toUnits(amount: string, places: number): bigint | null {
  const match = /^([-+]?)(\d+)(?:\.(\d*))?$/.exec(amount.trim());
  if (match === null) return null;
  const fraction = (match[3] ?? '').replace(/0+$/, '');
  if (fraction.length > places) return null;
  const units = BigInt((match[2] ?? '0') + fraction.padEnd(places, '0'));
  return match[1] === '-' ? -units : units;
}

/** The inverse of toUnits. */
export function fromUnits(units: bigint, places: number): string {
  const digits = (units < 0n ? -units : units).toString().padStart(places + 1, '0');
  const point = digits.length - places;
  return `${units < 0n ? '-' : ''}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** Whether an amount of dollars is below another; false where one of them cannot be read. */
export function isBelow(amount: string, other: string): boolean {
  const a = toUnits(amount, nanoPlaces);
  const b = toUnits(other, nanoPlaces);
  return a !== null && b !== null && a < b;
}

/** The amount with so many percent added: `withPercent('100', 20)` is `120.000000000`. */
export function withPercent(amount: string, percent: number): string {
  const units = toUnits(amount, nanoPlaces);
  if (units === null) return amount;
  return fromUnits(units + (units * BigInt(Math.round(percent * 100))) / 10_000n, nanoPlaces);
}

/** What part of a bound is used, from 0 to 100, for a gauge. Nothing is left of a bound of zero. */
export function usedPercent(used: number, bound: number): number {
  if (bound <= 0) return 100;
  return Math.min(100, Math.max(0, (used / bound) * 100));
}
