import { describe, expect, it } from 'vitest';

import type { Model } from './catalog';
import { allModels, isCallable, valuesOf, viewed } from './catalog-view';

function model(change: Partial<Model>): Model {
  return {
    active: true,
    capabilities: [],
    category: 'llm',
    context_length: 8192,
    created_at: null,
    currency: 'USD',
    deprecated_at: null,
    guaranteed_context_basis: 'reported',
    guaranteed_context_length: 4096,
    id: 'acme/tiny-1b',
    input_price: 1,
    input_price_str: '1',
    kind: 'open',
    max_output_tokens: 1024,
    max_reported_context_length: 8192,
    min_vram_gb: 0,
    name: 'Tiny',
    online_providers: 1,
    output_price: 2,
    output_price_str: '2',
    payout_cached_input_price: 0,
    payout_cached_input_price_str: '0',
    payout_input_price: 0.9,
    payout_input_price_str: '0.9',
    payout_output_price: 1.8,
    payout_output_price_str: '1.8',
    plan_coverage: 'tokens',
    price_change: null,
    pricing_unit: 'per_1m_tokens',
    quantizations: ['fp8'],
    slug: 'tiny',
    successor: '',
    supported_parameters: [],
    tier: 'standard',
    ...change,
  };
}

const tiny = model({});
const cheap = model({
  id: 'acme/cheap',
  name: 'Cheap',
  slug: 'cheap',
  input_price: 0.1,
  online_providers: 0,
  quantizations: [],
});
const paint = model({
  id: 'acme/paint',
  name: 'Paint',
  slug: 'paint',
  category: 'image',
  pricing_unit: 'per_image',
  input_price: 0,
  output_price: 0.04,
  tier: 'premium',
  online_providers: 3,
});
const gone = model({ id: 'acme/gone', name: 'Gone', slug: 'gone', active: false });
const all = [gone, cheap, paint, tiny];

const ids = (models: Model[]) => models.map(({ id }) => id);
const view = (change: Partial<Record<keyof typeof allModels, string>>) => ids(viewed(all, { ...allModels, ...change }));

describe('isCallable', () => {
  it('wants a model in service with a provider online', () => {
    expect(all.map(isCallable)).toEqual([false, false, true, true]);
  });
});

describe('viewed', () => {
  it('shows all, those first that can be called and those last that are not in service', () => {
    expect(view({})).toEqual(['acme/paint', 'acme/tiny-1b', 'acme/cheap', 'acme/gone']);
  });

  it('finds each word in the name, the id or the alias', () => {
    expect(view({ search: '  TINY acme ' })).toEqual(['acme/tiny-1b']);
    expect(view({ search: 'tiny paint' })).toEqual([]);
  });

  it('filters', () => {
    expect(view({ callable: 'yes' })).toEqual(['acme/paint', 'acme/tiny-1b']);
    expect(view({ category: 'image' })).toEqual(['acme/paint']);
    expect(view({ tier: 'premium' })).toEqual(['acme/paint']);
    expect(view({ kind: 'gateway' })).toEqual([]);
    expect(view({ quantization: 'fp8', category: 'llm' })).toEqual(['acme/tiny-1b', 'acme/gone']);
  });

  it('orders by price among prices of one unit', () => {
    expect(view({ sort: 'input' })).toEqual(['acme/cheap', 'acme/tiny-1b', 'acme/gone', 'acme/paint']);
  });

  it('takes an order that it does not know for the first', () => {
    expect(view({ sort: 'constructor' })).toEqual(view({}));
  });

  it('leaves the catalog as it was', () => {
    const before = ids(all);
    view({ sort: 'providers' });
    expect(ids(all)).toEqual(before);
  });
});

describe('valuesOf', () => {
  it('lists each value once, in order', () => {
    expect(valuesOf(all, ({ category }) => [category])).toEqual(['image', 'llm']);
    expect(valuesOf(all, ({ quantizations }) => quantizations)).toEqual(['fp8']);
  });
});
