import { usd } from '../../format/amounts';
// Reads a daily statement. It is canonical JSON, kept as it was signed, so its members are read here one by one.

export interface Balance {
  name: string;
  opening: string;
  closing: string;
}

export interface Sum {
  kind: string;
  entry: string;
  month: string;
  lines: string;
  usd: string;
}

export interface Read {
  day: string;
  chain: string;
  beneficiary: string;
  amount: string;
  earned: string;
  given: string;
  carried: string;
  leaf: string;
  root: string;
  seal: string;
  csv: string;
  proof: number;
  balances: Balance[];
  sums: Sum[];
}

/** Reads what is there; a member that is missing is empty. */
export function readStatement(value: unknown): Read {
  const leaf = member(value, 'leaf');
  return {
    day: text(value, 'day'),
    chain: text(value, 'chain_id'),
    beneficiary: text(leaf, 'beneficiary'),
    amount: usd(text(leaf, 'amount_nano_usd')),
    earned: usd(text(value, 'earned_nano_usd')),
    given: usd(text(value, 'given_nano_usd')),
    carried: usd(text(value, 'carried_nano_usd')),
    leaf: text(leaf, 'hash'),
    root: text(value, 'root'),
    seal: text(value, 'seal'),
    csv: text(value, 'csv_sha256'),
    proof: list(value, 'proof').length,
    balances: balances(member(value, 'opening'), member(value, 'closing')),
    sums: list(value, 'sums').map((sum) => ({
      kind: text(sum, 'kind'),
      entry: text(sum, 'entry_kind'),
      month: text(sum, 'month'),
      lines: text(sum, 'lines'),
      usd: usd(text(sum, 'amount_nano_usd')),
    })),
  };
}

const states = [
  ['settled', 'settled_nano_usd'],
  ['held', 'held_nano_usd'],
  ['payable', 'payable_nano_usd'],
  ['in flight', 'in_flight_nano_usd'],
  ['paid', 'paid_nano_usd'],
  ['converted', 'converted_nano_usd'],
  ['owed', 'owed_nano_usd'],
] as const;

function balances(opening: unknown, closing: unknown): Balance[] {
  const known = states.map(([name, field]) => ({
    name,
    opening: usd(text(opening, field)),
    closing: usd(text(closing, field)),
  }));
  const before = pending(opening);
  const after = pending(closing);
  const months = [...new Set([...before.keys(), ...after.keys()])].sort();
  return [
    ...known.slice(0, 2),
    ...months.map((month) => ({
      name: `settlement pending, ${month}`,
      opening: before.get(month) ?? '0',
      closing: after.get(month) ?? '0',
    })),
    ...known.slice(2),
  ];
}

function pending(balance: unknown): Map<string, string> {
  return new Map(
    list(balance, 'settlement_pending').map((one) => [text(one, 'month'), usd(text(one, 'amount_nano_usd'))]),
  );
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function text(value: unknown, name: string): string {
  const found = member(value, name);
  return typeof found === 'string' ? found : '';
}

function list(value: unknown, name: string): unknown[] {
  const found = member(value, name);
  return Array.isArray(found) ? found : [];
}
