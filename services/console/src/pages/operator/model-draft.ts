// A model between the API's form and the editor's.

import type { Schemas } from '../../api/client';
import type { paths } from '../../api/schema';
import type { Model } from './catalog-data';
import { counts, endOf, formatPrice, parsePrice, samePrice, unitOf, whole } from './invariants';
import type { Draft, PriceField, Standing } from './invariants';

type Put = paths['/api/v1/admin/models/{model_id}']['put'];
export type ModelBody = NonNullable<Put['requestBody']>['content']['application/json'];

export const priceFields: PriceField[] = [
  'input_price',
  'payout_input_price',
  'output_price',
  'payout_output_price',
  'payout_cached_input_price',
];

export const labels: Record<keyof Draft, string> = {
  model_id: 'Id',
  slug: 'Slug',
  name: 'Name',
  category: 'Category',
  kind: 'Served by',
  tier: 'Tier',
  active: 'In service',
  input_price: 'Input price',
  output_price: 'Output price',
  payout_input_price: 'Input payout',
  payout_output_price: 'Output payout',
  payout_cached_input_price: 'Payout of cached input',
  context_length: 'Context window',
  max_output_tokens: 'Longest answer',
  min_vram_gb: 'GPU memory',
  capabilities: 'Capabilities',
  supported_parameters: 'Supported parameters',
  deprecated_at: 'Goes away on',
  successor: 'Successor',
};

/** The editor's contents for a model that does not exist yet. */
export const empty: Draft = {
  model_id: '',
  slug: '',
  name: '',
  category: 'llm',
  kind: 'open',
  tier: 'standard',
  active: true,
  input_price: '',
  output_price: '',
  payout_input_price: '',
  payout_output_price: '',
  payout_cached_input_price: '',
  context_length: '',
  max_output_tokens: '',
  min_vram_gb: '',
  capabilities: [],
  supported_parameters: [],
  deprecated_at: '',
  successor: '',
};

export function draftOf(model: Model): Draft {
  return {
    model_id: model.id,
    slug: model.slug,
    name: model.name,
    category: model.category,
    kind: model.kind,
    tier: model.tier,
    active: model.active,
    input_price: model.input_price_str,
    output_price: model.output_price_str,
    payout_input_price: model.payout_input_price_str,
    payout_output_price: model.payout_output_price_str,
    payout_cached_input_price: model.payout_cached_input_price_str,
    context_length: String(model.context_length),
    max_output_tokens: String(model.max_output_tokens),
    min_vram_gb: String(model.min_vram_gb),
    capabilities: model.capabilities,
    supported_parameters: model.supported_parameters,
    deprecated_at: model.deprecated_at ?? '',
    successor: model.successor,
  };
}

/** The editor's contents for what a scheduled change has of a model. */
export function draftOfEntry(id: string, entry: Schemas['ModelEntry']): Draft {
  const { inactive, deprecated_at, ...rest } = entry;
  return {
    ...rest,
    model_id: id,
    active: !inactive,
    context_length: String(entry.context_length),
    max_output_tokens: String(entry.max_output_tokens),
    min_vram_gb: String(entry.min_vram_gb),
    deprecated_at: deprecated_at ?? '',
  };
}

export function standingOf(model: Model): Standing {
  return { kind: model.kind, deprecatedAt: model.deprecated_at === null ? null : Date.parse(model.deprecated_at) };
}

/** What PutModel takes. It replaces the model, so all of it is sent. Call it with a draft that has no problems. */
export function bodyOf(draft: Draft): ModelBody {
  const { model_id: _, active, deprecated_at, ...rest } = draft;
  // An end that was not touched is sent as it came, to the last digit.
  const ends = deprecated_at.length === 10 ? endOf(deprecated_at) : null;
  return {
    ...rest,
    context_length: whole(draft.context_length) ?? 0,
    max_output_tokens: whole(draft.max_output_tokens) ?? 0,
    min_vram_gb: whole(draft.min_vram_gb) ?? 0,
    inactive: !active,
    deprecated_at: ends === null ? deprecated_at || null : new Date(ends).toISOString(),
  };
}

/** The prices that a category does not have are emptied, because a form that does not show them must not send them. */
export function withCategory(draft: Draft, category: string): Draft {
  const counted = counts(unitOf(category));
  const next = { ...draft, category };
  if (!counted.input) Object.assign(next, { input_price: '', payout_input_price: '' });
  if (!counted.output) Object.assign(next, { output_price: '', payout_output_price: '' });
  if (!counted.input || !counted.output) next.payout_cached_input_price = '';
  return next;
}

/** The payout that is a share of the price in percent, rounded down to the unit's last decimal. */
export function payoutAt(draft: Draft, price: string, percent: bigint): string {
  const unit = unitOf(draft.category);
  const value = parsePrice(unit, price);
  return value === null || value < 0n ? '' : formatPrice(unit, (value * percent) / 100n);
}

export interface Change {
  field: keyof Draft;
  from: string;
  to: string;
}

/** What saving would change. Prices are compared by value. */
export function changesOf(before: Draft, after: Draft): Change[] {
  const fields = Object.keys(labels).filter((field): field is keyof Draft => field in before);
  const changed = fields.filter((field) => !same(field, before, after));
  return changed.map((field) => ({ field, from: text(before[field]), to: text(after[field]) }));
}

function same(field: keyof Draft, before: Draft, after: Draft): boolean {
  const price = priceFields.find((name) => name === field);
  if (price !== undefined) {
    const unit = unitOf(after.category);
    return unit === unitOf(before.category) && samePrice(unit, before[price], after[price]);
  }
  if (field === 'capabilities' || field === 'supported_parameters')
    return sorted(before[field]) === sorted(after[field]);
  if (field === 'context_length' || field === 'max_output_tokens' || field === 'min_vram_gb') {
    return (
      before[field] === after[field] || (whole(after[field]) !== null && whole(before[field]) === whole(after[field]))
    );
  }
  if (field === 'deprecated_at') {
    return (
      before[field] === after[field] || (endOf(after[field]) !== null && endOf(before[field]) === endOf(after[field]))
    );
  }
  return before[field] === after[field];
}

function sorted(words: string[]): string {
  return [...new Set(words)].sort().join(' ');
}

function text(value: string | string[] | boolean): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  const shown = Array.isArray(value) ? [...value].sort().join(', ') : value;
  return shown === '' ? '–' : shown;
}

/** What the changes do beyond the catalog, in sentences. `when` is from when they hold. */
export function consequences(changes: Change[], isNew: boolean, when: 'at once' | 'at the moment'): string[] {
  const changed = (field: keyof Draft) => changes.find((change) => change.field === field);
  const said: string[] = [];
  if (isNew) said.push('The model is in the public catalog at once. It is callable once a provider serves it.');
  else if (changes.some(({ field }) => priceFields.some((name) => name === field))) {
    said.push(`A new price version begins ${when}. Requests that were admitted before keep their prices and payouts.`);
  }
  if (changed('active')?.to === 'no') {
    said.push(`The model is out of service ${when}: new requests for it are refused. Requests under way finish.`);
  }
  if (changed('active')?.to === 'yes' && !isNew) said.push(`The model is back in service ${when}.`);
  if (changed('deprecated_at') !== undefined) {
    said.push('Consumers see the day in the catalog. From then on requests for the model are refused.');
    said.push('The day can be put off, but not taken back.');
  }
  if (changed('context_length') !== undefined) {
    said.push('The window bounds which prompts are admitted, and the windows that providers report.');
  }
  if (changed('tier') !== undefined && !isNew) said.push('The tier decides whether the Token Plan pays for the model.');
  return said;
}
