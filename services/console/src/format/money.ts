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
  return shown(amount, (digits) => Math.max(2, digits));
}

/** How many digits follow the point in a column: those of cents, of a token's price, of a nano-dollar. */
const widths = [2, 6, 9];

/** Shows dollars as dollars does, but with two, six or nine digits, so that a column has its points below each other. */
export function aligned(amount: string): string {
  return shown(amount, (digits) => widths.find((width) => width >= digits) ?? digits);
}

/** Shows dollars with as many digits after the point as `width` makes of those that are not zero. */
function shown(amount: string, width: (digits: number) => number): string {
  const parts = split(amount);
  if (parts === null) return amount;
  const digits = parts.fraction.replace(/0+$/, '');
  const zero = /^0*$/.test(parts.whole + digits);
  return `${zero ? '' : parts.sign}$${grouped(parts.whole)}.${digits.padEnd(width(digits.length), '0')}`;
}

/** Shows dollars in whole cents, cut off: `$2.89`. What is above zero and below a cent is `below $0.01`. */
export function cents(amount: string): string {
  const parts = split(amount);
  if (parts === null) return amount;
  const cut = `${parts.whole}.${parts.fraction.slice(0, 2)}`;
  if (isZero(cut) && !isZero(amount)) return parts.sign === '-' ? dollars(amount) : 'below $0.01';
  return dollars(`${parts.sign}${cut}`);
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
