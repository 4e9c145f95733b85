import { expect, test } from 'vitest';

import type { Schemas } from '../../api/client';
import { costLines } from './cost';
import { toUnits } from './exact';

type Receipt = Schemas['Receipt'];

const receipt: Receipt = {
  admitted_at: null,
  attempts: [],
  audio_seconds: 0,
  billing_type: 'payg',
  claimed_completion_tokens: 0,
  claimed_prompt_tokens: 0,
  completion_tokens: 0,
  connection_mode: 'websocket',
  continued_as: '',
  cost_usd: 0,
  cost_usd_str: '0.00',
  discount_usd: 0,
  discount_usd_str: '0.00',
  ending: 'completed',
  error_code: '',
  fallback_reason: '',
  first_content_ms: 0,
  http_status: 200,
  images: 0,
  input_price_str: '0.00',
  model: 'm',
  output_price_str: '0.00',
  price_version_id: '',
  pricing_unit: 'per_1m_tokens',
  prompt_tokens: 0,
  provider_id: '',
  provider_name: '',
  recounted_completion_tokens: 0,
  request_id: '',
  requested_provider: '',
  route_mode: 'auto',
  settled_at: null,
  status: 'settled',
  stream: false,
  total_ms: 0,
};

function sum(of: Receipt): bigint | undefined {
  return costLines(of)?.reduce((total, line) => total + (toUnits(line.usd, 12) ?? 0n), 0n);
}

function cost(of: Receipt): bigint | null {
  return toUnits(of.cost_usd_str, 12);
}

const cases: [string, Partial<Receipt>, string[]][] = [
  [
    'tokens whose sum is a whole nano-dollar',
    {
      prompt_tokens: 1234,
      completion_tokens: 56,
      input_price_str: '0.15',
      output_price_str: '0.60',
      cost_usd_str: '0.0002187',
    },
    ['1,234 prompt tokens × $0.15 per 1M tokens', '56 completion tokens × $0.60 per 1M tokens'],
  ],
  [
    'half a nano-dollar is rounded to the even one',
    { prompt_tokens: 1, input_price_str: '0.0025', cost_usd_str: '0.000000002' },
    [
      '1 prompt token × $0.0025 per 1M tokens',
      '0 completion tokens × $0.00 per 1M tokens',
      'Rounded to a billionth of a dollar',
    ],
  ],
  [
    'a discount',
    { prompt_tokens: 1_000_000, input_price_str: '1.00', discount_usd_str: '0.10', cost_usd_str: '0.90' },
    [
      '1,000,000 prompt tokens × $1.00 per 1M tokens',
      '0 completion tokens × $0.00 per 1M tokens',
      'Discount of the account',
    ],
  ],
  [
    'what the plan covers',
    { billing_type: 'plan', prompt_tokens: 1_000_000, input_price_str: '1.00' },
    [
      '1,000,000 prompt tokens × $1.00 per 1M tokens',
      '0 completion tokens × $0.00 per 1M tokens',
      'Covered by the plan',
    ],
  ],
  [
    'images',
    { pricing_unit: 'per_image', images: 3, output_price_str: '0.04', cost_usd_str: '0.12' },
    ['3 images × $0.04 per image'],
  ],
  [
    'audio, whose product has no end in decimals',
    { pricing_unit: 'per_minute', audio_seconds: 61.337, input_price_str: '0.0061', cost_usd_str: '0.006235928' },
    ['61.337 s of audio × $0.0061 per minute', 'Rounded to a billionth of a dollar'],
  ],
];

test.each(cases)('%s adds up to the cost', (_, change, texts) => {
  const of = { ...receipt, ...change };
  expect(costLines(of)?.map((line) => line.text)).toEqual(texts);
  expect(sum(of)).toBe(cost(of));
});

test('figures that cannot be read give no sum', () => {
  expect(costLines({ ...receipt, input_price_str: 'x' })).toBeNull();
  expect(costLines({ ...receipt, pricing_unit: 'per_year' })).toBeNull();
});
