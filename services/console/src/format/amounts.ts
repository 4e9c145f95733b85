// Exact arithmetic of dollars. Amounts are decimal strings and are counted in whole nano-dollars.

const digits = 9;

/** Dollars in nano-dollars; null for a text that is no amount, or that has digits below a nano-dollar. */
export function nano(usd: string): bigint | null {
  const match = /^([-+]?)(\d{1,18})(?:\.(\d{0,9})0*)?$/.exec(usd.trim());
  if (match === null) return null;
  const value = BigInt(`${match[2] ?? '0'}${(match[3] ?? '').padEnd(digits, '0')}`);
  return match[1] === '-' ? -value : value;
}

/**
 * Nano-dollars, as a number or as digits, in decimal dollars: `-1.500000000`. A text that is no number stays as it is.
 */
export function usd(value: bigint | string): string {
  const n = typeof value === 'bigint' ? value : whole(value);
  if (n === null) return String(value);
  const text = (n < 0n ? -n : n).toString().padStart(digits + 1, '0');
  return `${n < 0n ? '-' : ''}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** The sum of dollars. What is no amount counts nothing. */
export function sum(amounts: string[]): string {
  return usd(amounts.reduce((total, amount) => total + (nano(amount) ?? 0n), 0n));
}

/** One amount less another; null where one of them is none. */
export function less(a: string, b: string): string | null {
  const [from, what] = [nano(a), nano(b)];
  return from === null || what === null ? null : usd(from - what);
}

/** Reports whether one amount is below another. What is no amount is below nothing. */
export function isBelow(a: string, b: string): boolean {
  const [left, right] = [nano(a), nano(b)];
  return left !== null && right !== null && left < right;
}

/**
 * What is held as a share of what is owed: `104.21%`. Both are in one unit. `–` where nothing is owed, and `over 1,000%`
 * where the digits would say nothing more.
 */
export function coverage(held: string, owed: string): string {
  const [a, b] = [whole(held), whole(owed)];
  if (a === null || b === null || b <= 0n) return '–';
  if (a > 10n * b) return 'over 1,000%';
  const basis = ((a * 10_000n) / b).toString().padStart(3, '0');
  return `${basis.slice(0, -2)}.${basis.slice(-2)}%`;
}

/** Digits as a whole number; null for any other text. */
export function whole(text: string): bigint | null {
  return /^-?\d{1,78}$/.test(text) ? BigInt(text) : null;
}
