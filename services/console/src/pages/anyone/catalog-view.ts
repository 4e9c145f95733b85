// Which models a reader sees, and in which order.

import type { Model } from './catalog';
import { own } from './own';

export interface View {
  /** Words that the name or the id has; empty for all. */
  search: string;
  category: string;
  kind: string;
  tier: string;
  quantization: string;
  /** `yes` for those that can be called now. */
  callable: string;
  sort: string;
}

/** A filter at its default lets all through. */
export const allModels = {
  search: '',
  category: 'all',
  kind: 'all',
  tier: 'all',
  quantization: 'all',
  callable: 'all',
  sort: 'ready',
} as const satisfies View;

export const sorts = [
  { value: 'ready', label: 'Callable first' },
  { value: 'input', label: 'Lowest input price' },
  { value: 'output', label: 'Lowest output price' },
  { value: 'providers', label: 'Most providers online' },
  { value: 'context', label: 'Largest guaranteed context' },
];

/** Reports whether a request for a model can be served now. */
export function isCallable(model: Model): boolean {
  return model.active && model.online_providers > 0;
}

/** Reports whether a model is asked by messages. */
export function isChat(model: Model): boolean {
  return model.category === 'llm' || model.category === 'multimodal';
}

/** The models that a view shows, in its order. */
export function viewed(models: Model[], view: View): Model[] {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const is = (wanted: string, value: string) => wanted === 'all' || wanted === value;
  return models
    .filter((model) => {
      const text = `${model.name} ${model.id} ${model.slug}`.toLowerCase();
      return (
        words.every((word) => text.includes(word)) &&
        is(view.category, model.category) &&
        is(view.kind, model.kind) &&
        is(view.tier, model.tier) &&
        (view.quantization === 'all' || model.quantizations.includes(view.quantization)) &&
        (view.callable !== 'yes' || isCallable(model))
      );
    })
    .sort(order(view.sort));
}

/** All values that a field has, in alphabetical order. */
export function valuesOf(models: Model[], values: (model: Model) => string[]): string[] {
  return [...new Set(models.flatMap(values))].filter((value) => value !== '').sort();
}

type Order = (a: Model, b: Model) => number;

function order(sort: string): Order {
  const by = own(orders, sort) ?? ready;
  return (a, b) => by(a, b) || ready(a, b) || a.id.localeCompare(b.id);
}

const ready: Order = (a, b) => Number(isCallable(b)) - Number(isCallable(a)) || Number(b.active) - Number(a.active);

// Prices for different units have no order among each other: tokens come first, then images, then minutes.
const units = ['per_1m_tokens', 'per_image', 'per_minute'];
const unit: Order = (a, b) => units.indexOf(a.pricing_unit) - units.indexOf(b.pricing_unit);

const orders: Record<string, Order> = {
  ready,
  input: (a, b) => unit(a, b) || a.input_price - b.input_price,
  output: (a, b) => unit(a, b) || a.output_price - b.output_price,
  providers: (a, b) => b.online_providers - a.online_providers,
  context: (a, b) => (b.guaranteed_context_length ?? -1) - (a.guaranteed_context_length ?? -1),
};
