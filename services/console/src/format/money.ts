// Money arrives as decimal strings in dollars, exact to the nano-dollar. It is shown without ever becoming
// a floating-point number.

/** Splits a decimal string; null where it is none. */
function split(amount: string): { sign: string; whole: string; fraction: string } | null {
  const match = /^([-+]?)(\d+)(?:\.(\d*))?$/.exec(amount.trim());
  if (match === null) return null;
  return { sign: match[1] === '-' ? '-' : '', whole: match[2] ?? '0', fraction: match[3] ?? '' };
}

function grouped(whole: string): string {
  return whole.replace(/^0+(?=\d)/, '').replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/**
 * Shows dollars exactly: `-$1,234.50`. At least two digits follow the point, and as many more as are
 * not zero.
 */
export function dollars(amount: string): string {
  const parts = split(amount);
  if (parts === null) return amount;
  const fraction = parts.fraction.replace(/0+$/, '').padEnd(2, '0');
  const zero = /^0*$/.test(parts.whole + fraction);
  return `${zero ? '' : parts.sign}$${grouped(parts.whole)}.${fraction}`;
}

/** Reports whether a decimal string is below zero. */
export function isNegative(amount: string): boolean {
  const parts = split(amount);
  return parts !== null && parts.sign === '-' && /[1-9]/.test(parts.whole + parts.fraction);
}

/** Reports whether a decimal string is zero. */
export function isZero(amount: string): boolean {
  const parts = split(amount);
  return parts !== null && !/[1-9]/.test(parts.whole + parts.fraction);
}

/** The number that a chart draws. No sum may be made from it. */
export function forChart(amount: string): number {
  return Number(amount);
}

/** An amount of a token's smallest unit, such as wei, with its decimals: `units('1500000', 6)` is `1.5`. */
export function units(amount: string, decimals: number): string {
  const parts = split(amount);
  if (parts === null || parts.fraction !== '') return amount;
  const digits = parts.whole.padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '');
  return `${parts.sign}${grouped(whole)}${fraction === '' ? '' : `.${fraction}`}`;
}
