// What the catalog's words mean, and how its prices are shown.

import { Text } from '@mantine/core';

import { dollars, isZero } from '../../format/money';
import { count } from '../../format/quantity';
import type { Model } from './catalog';
import { own } from './own';

export const categories: Record<string, string> = {
  llm: 'Text',
  multimodal: 'Text and pictures',
  embedding: 'Embeddings',
  image: 'Image generation',
  audio: 'Speech to text',
};

export const kinds: Record<string, string> = { open: 'Open weights', gateway: 'Frontier gateway' };

export const tiers: Record<string, string> = { free: 'Free', standard: 'Standard', premium: 'Premium' };

/** What the guaranteed context is known from. */
export const contextBases: Record<string, string> = {
  reported: 'every provider online reports its window, or it was measured',
  partial: 'only some providers online report their window',
  unknown: 'no provider online reports its window, so this is the catalog’s',
  no_online_providers: 'no provider is online',
};

/** The same in a word or two, for tables. */
export const shortBases: Record<string, string> = {
  reported: 'reported',
  partial: 'partly reported',
  unknown: 'from the catalog',
  no_online_providers: 'nobody online',
};

/** How the Token Plan pays for a model. */
export const planCoverages: Record<string, string> = {
  tokens: 'Covered: counts against the plan’s tokens',
  images: 'Covered: counts against the plan’s images a day',
  money: 'Covered only while the plan’s allowance is in money',
  undrawn: 'Covered, without drawing on the allowance',
  none: 'Not covered: paid from credit',
  unneeded: 'Costs nothing',
};

/** The same in a word or two, for tables. */
export const shortCoverages: Record<string, string> = {
  tokens: 'covered by its tokens',
  images: 'covered by its images',
  money: 'covered if in money',
  undrawn: 'covered in full',
  none: 'not covered',
  unneeded: 'costs nothing',
};

/** Returns the words for a value, or the value of a newer service that this page has no words for. */
export function wordFor(words: Record<string, string>, value: string): string {
  return own(words, value) ?? value.replaceAll('_', ' ');
}

const perUnit: Record<string, string> = { per_1m_tokens: '1M tokens', per_image: 'image', per_minute: 'minute' };

/** What a price of a model is for. */
export function unitOf(model: { pricing_unit: string }): string {
  return own(perUnit, model.pricing_unit) ?? model.pricing_unit.replaceAll('_', ' ');
}

/**
 * One of a model's prices. Images are billed as output and audio as input; the other side of such a model has no
 * price, nor has the output of embeddings.
 */
export function Price({ model, side, usd }: { model: Model; side: 'input' | 'output'; usd: string }) {
  const unpriced =
    (model.pricing_unit === 'per_image' && side === 'input') ||
    (model.pricing_unit === 'per_minute' && side === 'output') ||
    (model.category === 'embedding' && side === 'output');
  if (unpriced && isZero(usd))
    return (
      <Text span inherit>
        –
      </Text>
    );
  return (
    <Text span inherit className="tabular">
      {isZero(usd) ? 'free' : dollars(usd)}
      {model.pricing_unit !== 'per_1m_tokens' && !isZero(usd) && (
        <Text span size="sm" c="var(--muted)">
          {' '}
          / {unitOf(model)}
        </Text>
      )}
    </Text>
  );
}

/** The guaranteed context in tokens, with what it is known from. */
export function GuaranteedContext({ model }: { model: Model }) {
  return (
    <Text span inherit>
      {model.guaranteed_context_length === null ? '–' : count(model.guaranteed_context_length)}
      <Text span size="sm" c="var(--muted)" display="block">
        {wordFor(shortBases, model.guaranteed_context_basis)}
      </Text>
    </Text>
  );
}
