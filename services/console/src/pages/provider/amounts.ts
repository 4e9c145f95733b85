// Exact arithmetic of dollars. Amounts are decimal strings and are counted in whole nano-dollars.

const digits = 9;

/** Dollars in nano-dollars; null for a text that is no amount, or that has digits below a nano-dollar. */
export function nano(usd: string): bigint | null {
  const match = /^([-+]?)(\d{1,18})(?:\.(\d{0,9})0*)?$/.exec(usd.trim());
  if (match === null) return null;
  const value = BigInt(`${match[2] ?? '0'}${(match[3] ?? '').padEnd(digits, '0')}`);
  return match[1] === '-' ? -value : value;
}

/** Nano-dollars in decimal dollars. */
export function usd(value: bigint): string {
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  return `${value < 0n ? '-' : ''}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** Nano-dollars that are written as digits, in decimal dollars; the text itself where it is no number. */
export function usdOfDigits(text: string): string {
  return /^-?\d{1,30}$/.test(text) ? usd(BigInt(text)) : text;
}

/** One amount less another; null where one of them is none. */
export function less(a: string, b: string): string | null {
  const [from, what] = [nano(a), nano(b)];
  return from === null || what === null ? null : usd(from - what);
}

/** Whether one amount is below another. What is no amount is below nothing. */
export function isBelow(a: string, b: string): boolean {
  const [left, right] = [nano(a), nano(b)];
  return left !== null && right !== null && left < right;
}
