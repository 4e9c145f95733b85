// How a request's cost comes about, as a sum that adds up to the last digit.

import { toUnits, fromUnits, nanoPlaces } from './exact';
import type { Schemas } from '../../api/client';
import { dollars } from '../../format/money';
import { count } from '../../format/quantity';

type Receipt = Schemas['Receipt'];

export interface CostLine {
  text: string;
  usd: string;
}

const picoPlaces = 12; // one pico-dollar is the price of a token at a micro-dollar per million
const picoPerNano = 1_000n;
const msPerMinute = 60_000n;

/**
 * The lines whose sum is the cost; null where the receipt's figures cannot be read. A price times a count may be finer
 * than a nano-dollar. The ledger rounds the whole once, half to even, so the rounding is a line of its own.
 */
export function costLines(receipt: Receipt): CostLine[] | null {
  const parts = products(receipt);
  const cost = toUnits(receipt.cost_usd_str, nanoPlaces);
  const discount = toUnits(receipt.discount_usd_str, nanoPlaces);
  if (parts === null || cost === null || discount === null) return null;

  const exact = parts.reduce((sum, part) => sum + part.weighed, 0n);
  const list = halfEven(exact, picoPerNano * msPerMinute);
  const lines = parts.map((part) => ({ text: part.text, usd: fromUnits(part.weighed / msPerMinute, picoPlaces) }));
  const shown = parts.reduce((sum, part) => sum + part.weighed / msPerMinute, 0n);

  const rounding = list * picoPerNano - shown;
  if (rounding !== 0n) lines.push({ text: 'Rounded to a billionth of a dollar', usd: fromUnits(rounding, picoPlaces) });
  if (discount !== 0n) lines.push({ text: 'Discount of the account', usd: fromUnits(-discount, nanoPlaces) });
  const borne = list - discount - cost;
  if (borne !== 0n) lines.push({ text: borneBy(receipt.billing_type), usd: fromUnits(-borne, nanoPlaces) });
  return lines;
}

/** Counts times prices, in pico-dollars times the milliseconds of a minute, so that audio is exact, too. */
function products(receipt: Receipt): { text: string; weighed: bigint }[] | null {
  if (receipt.pricing_unit === 'per_1m_tokens') {
    const input = toUnits(receipt.input_price_str, 6);
    const output = toUnits(receipt.output_price_str, 6);
    if (input === null || output === null) return null;
    const text = (n: number, kind: string, price: string) =>
      `${counted(n, `${kind} token`)} × ${dollars(price)} per 1M tokens`;
    return [
      {
        text: text(receipt.prompt_tokens, 'prompt', receipt.input_price_str),
        weighed: BigInt(receipt.prompt_tokens) * input * msPerMinute,
      },
      {
        text: text(receipt.completion_tokens, 'completion', receipt.output_price_str),
        weighed: BigInt(receipt.completion_tokens) * output * msPerMinute,
      },
    ];
  }
  if (receipt.pricing_unit === 'per_image') {
    const price = toUnits(receipt.output_price_str, picoPlaces);
    if (price === null) return null;
    const text = `${counted(receipt.images, 'image')} × ${dollars(receipt.output_price_str)} per image`;
    return [{ text, weighed: BigInt(receipt.images) * price * msPerMinute }];
  }
  const price = toUnits(receipt.input_price_str, picoPlaces);
  if (price === null || receipt.pricing_unit !== 'per_minute') return null;
  const text = `${count(receipt.audio_seconds)} s of audio × ${dollars(receipt.input_price_str)} per minute`;
  return [{ text, weighed: BigInt(Math.round(receipt.audio_seconds * 1000)) * price }];
}

function counted(n: number, what: string): string {
  return `${count(n)} ${what}${n === 1 ? '' : 's'}`;
}

function halfEven(value: bigint, divisor: bigint): bigint {
  const whole = value / divisor;
  const twice = (value % divisor) * 2n;
  const up = twice > divisor || (twice === divisor && whole % 2n === 1n);
  return up ? whole + 1n : whole;
}

function borneBy(billingType: string): string {
  switch (billingType) {
    case 'plan':
      return 'Covered by the plan';
    case 'playground':
    case 'orphan':
      return 'Paid by the platform';
    default:
      return 'Not charged, because it is above what was held';
  }
}
