import { describe, expect, it } from 'vitest';

import {
  check,
  endOf,
  formatPrice,
  idProblem,
  margin,
  momentOf,
  momentProblem,
  parsePrice,
  samePrice,
  unitOf,
  type Draft,
  type Standing,
} from './invariants';

const now = Date.UTC(2026, 10, 21, 12);
const day = 86_400_000;

const good: Draft = {
  model_id: 'acme/tiny-1b',
  slug: '',
  name: 'Tiny 1B',
  category: 'llm',
  kind: 'open',
  tier: 'standard',
  active: true,
  input_price: '0.10',
  output_price: '0.40',
  payout_input_price: '0.09',
  payout_output_price: '0.36',
  payout_cached_input_price: '',
  context_length: '131072',
  max_output_tokens: '0',
  min_vram_gb: '24',
  capabilities: ['chat', 'stream'],
  supported_parameters: ['temperature', 'top_p'],
  deprecated_at: '',
  successor: '',
};

function problems(change: Partial<Draft>, current: Standing | null = null) {
  return check({ ...good, ...change }, current, now);
}

describe('prices', () => {
  it('are read exactly to the last decimal of their unit', () => {
    expect(parsePrice('per_1m_tokens', '0.0375')).toBe(37_500n);
    expect(parsePrice('per_1m_tokens', '0.000001')).toBe(1n);
    expect(parsePrice('per_image', '0.04')).toBe(40_000_000n);
    expect(parsePrice('per_minute', '0.000000001')).toBe(1n);
    expect(parsePrice('per_minute', '')).toBe(0n);
    expect(parsePrice('per_1m_tokens', '.5')).toBe(500_000n);
    expect(parsePrice('per_1m_tokens', '+1')).toBe(1_000_000n);
    expect(parsePrice('per_1m_tokens', '-1')).toBe(-1_000_000n);
  });

  it('are refused where the catalog refuses them', () => {
    for (const text of ['0.0000001', '1.', '.', '-', ' 1', '1 ', '1,5', '1e3', 'NaN', '0x1', '१', '9'.repeat(40)]) {
      expect(parsePrice('per_1m_tokens', text), text).toBeNull();
    }
    expect(parsePrice('per_image', '0.0000000001')).toBeNull();
  });

  it('are written as they are read', () => {
    expect(formatPrice('per_1m_tokens', 37_500n)).toBe('0.0375');
    expect(formatPrice('per_1m_tokens', 1n)).toBe('0.000001');
    expect(formatPrice('per_image', 40_000_000n)).toBe('0.04');
    expect(formatPrice('per_minute', 0n)).toBe('0.00');
    expect(formatPrice('per_minute', -1_500_000_000n)).toBe('-1.50');
  });

  it('are the same by value, not by text', () => {
    expect(samePrice('per_1m_tokens', '0.1', '0.100')).toBe(true);
    expect(samePrice('per_1m_tokens', '', '0.00')).toBe(true);
    expect(samePrice('per_1m_tokens', '0.1', '0.100001')).toBe(false);
    expect(samePrice('per_1m_tokens', 'a', 'a')).toBe(true);
    expect(samePrice('per_1m_tokens', 'a', '0')).toBe(false);
  });

  it('have the unit of the category', () => {
    expect(['llm', 'multimodal', 'embedding', 'image', 'audio'].map(unitOf)).toEqual([
      'per_1m_tokens',
      'per_1m_tokens',
      'per_1m_tokens',
      'per_image',
      'per_minute',
    ]);
  });
});

describe('the margin', () => {
  it('is exact where floating-point numbers are not', () => {
    // 0.3 - 0.1 is 0.19999999999999998 in floating point.
    expect(margin('per_1m_tokens', '0.3', '0.1')).toEqual({ usd: '0.20', share: '66.66%', negative: false });
    expect(margin('per_1m_tokens', '0.10', '0.09')).toEqual({ usd: '0.01', share: '10.00%', negative: false });
    expect(margin('per_1m_tokens', '999999.999999', '999999.999998')).toEqual({
      usd: '0.000001',
      share: '0.00%',
      negative: false,
    });
  });

  it('has no share where nothing is charged', () => {
    expect(margin('per_1m_tokens', '0', '')).toEqual({ usd: '0.00', share: null, negative: false });
  });

  it('says when it is below zero', () => {
    expect(margin('per_image', '0.04', '0.05')).toEqual({ usd: '-0.01', share: '-25.00%', negative: true });
  });

  it('is unknown while a price is being typed', () => {
    expect(margin('per_1m_tokens', '0.', '0.09')).toBeNull();
  });
});

describe('check', () => {
  it('accepts a sound model', () => {
    expect(problems({})).toEqual({});
    expect(
      problems({ input_price: '', output_price: '', payout_input_price: '', payout_output_price: '', tier: 'free' }),
    ).toEqual({});
  });

  it('wants a payout for each price, and none above it', () => {
    expect(Object.keys(problems({ payout_input_price: '' }))).toEqual(['payout_input_price']);
    expect(Object.keys(problems({ payout_output_price: '0' }))).toEqual(['payout_output_price']);
    expect(Object.keys(problems({ payout_output_price: '0.400001' }))).toEqual(['payout_output_price']);
    expect(problems({ payout_output_price: '0.400000' })).toEqual({});
    expect(Object.keys(problems({ input_price: '' }))).toEqual(['payout_input_price']);
  });

  it('bounds prices', () => {
    expect(problems({ input_price: '1000000', payout_input_price: '1000000' })).toEqual({});
    expect(Object.keys(problems({ input_price: '1000000.000001' }))).toEqual(['input_price']);
    expect(Object.keys(problems({ input_price: '-0.1' }))).toContain('input_price');
    const image = { category: 'image', input_price: '', payout_input_price: '', max_output_tokens: '0' };
    expect(Object.keys(problems({ ...image, output_price: '1000.000000001', payout_output_price: '1' }))).toEqual([
      'output_price',
    ]);
  });

  it('knows what each unit is priced by', () => {
    const free = { input_price: '', output_price: '', payout_input_price: '', payout_output_price: '' };
    const both = { input_price: '1', output_price: '1', payout_input_price: '1', payout_output_price: '1' };
    expect(problems({ ...free, category: 'image', output_price: '0.04', payout_output_price: '0.03' })).toEqual({});
    expect(problems({ ...free, category: 'audio', input_price: '0.006', payout_input_price: '0.005' })).toEqual({});
    expect(Object.keys(problems({ ...both, category: 'image' }))).toEqual(['input_price']);
    expect(Object.keys(problems({ ...both, category: 'audio' }))).toEqual(['output_price']);
  });

  it('has a price of cached tokens for vendors of tokens alone', () => {
    const gateway = { kind: 'gateway', tier: 'premium', model_id: 'openai/gpt' };
    expect(problems({ ...gateway, payout_cached_input_price: '0.01' })).toEqual({});
    expect(Object.keys(problems({ ...gateway, payout_cached_input_price: '0.091' }))).toEqual([
      'payout_cached_input_price',
    ]);
    expect(Object.keys(problems({ payout_cached_input_price: '0.01' }))).toEqual(['payout_cached_input_price']);
    expect(problems({ payout_cached_input_price: '0' })).toEqual({});
  });

  it('keeps the kind, and gateway models premium', () => {
    expect(Object.keys(problems({ kind: 'gateway', tier: 'standard' }))).toEqual(['tier']);
    expect(Object.keys(problems({ kind: 'gateway', tier: 'premium' }, { kind: 'open', deprecatedAt: null }))).toEqual([
      'kind',
    ]);
  });
});

describe('check of the rest', () => {
  it('bounds numbers', () => {
    expect(Object.keys(problems({ context_length: '' }))).toEqual(['context_length']);
    expect(Object.keys(problems({ context_length: '100000001' }))).toEqual(['context_length']);
    expect(Object.keys(problems({ max_output_tokens: '131073' }))).toEqual(['max_output_tokens']);
    expect(Object.keys(problems({ max_output_tokens: '1.5' }))).toEqual(['max_output_tokens']);
    expect(Object.keys(problems({ min_vram_gb: '65537' }))).toEqual(['min_vram_gb']);
  });

  it('bounds names and lists', () => {
    expect(Object.keys(problems({ slug: '..' }))).toEqual(['slug']);
    expect(Object.keys(problems({ name: 'a\u0000b' }))).toEqual(['name']);
    expect(problems({ name: '😀'.repeat(128) })).toEqual({});
    expect(Object.keys(problems({ name: '😀'.repeat(129) }))).toEqual(['name']);
    expect(Object.keys(problems({ capabilities: ['Chat'] }))).toEqual(['capabilities']);
    expect(Object.keys(problems({ capabilities: Array.from({ length: 33 }, (_, n) => `c${n}`) }))).toEqual([
      'capabilities',
    ]);
    expect(Object.keys(problems({ successor: good.model_id }))).toEqual(['successor']);
  });

  it('announces an end thirty days ahead, and takes none back', () => {
    const at = (days: number) => new Date(now + days * day).toISOString();
    const ends = (days: number): Standing => ({ kind: 'open', deprecatedAt: now + days * day });
    expect(problems({ deprecated_at: at(30) })).toEqual({});
    expect(Object.keys(problems({ deprecated_at: at(29.9) }))).toEqual(['deprecated_at']);
    expect(problems({ deprecated_at: at(2) }, ends(2))).toEqual({});
    expect(problems({ deprecated_at: at(3) }, ends(2))).toEqual({});
    expect(Object.keys(problems({ deprecated_at: at(29) }, ends(90)))).toEqual(['deprecated_at']);
    expect(Object.keys(problems({ deprecated_at: '' }, ends(90)))).toEqual(['deprecated_at']);
    expect(Object.keys(problems({ deprecated_at: 'soon' }))).toEqual(['deprecated_at']);
  });
});

describe('idProblem', () => {
  it('refuses ids that the catalog refuses', () => {
    const bad = [
      '',
      '/',
      'a/',
      '/a',
      'a//b',
      'a/./b',
      '..',
      'catalog',
      'a/providers',
      'a/files',
      'ä',
      'a b',
      'a%2Fb',
      'a'.repeat(129),
    ];
    expect(bad.filter((id) => idProblem(id) === '')).toEqual([]);
  });

  it('accepts ids that the catalog accepts', () => {
    expect(
      ['m', 'vendor/model', 'a/b/c', 'Llama-3.1:8b_q4', '...', 'providers']
        .map(idProblem)
        .filter((text) => text !== ''),
    ).toEqual([]);
  });
});

describe('endOf', () => {
  it('takes a day as its beginning in UTC', () => {
    expect(endOf('2027-01-31')).toBe(Date.UTC(2027, 0, 31));
    expect(endOf('2027-01-31T08:30:00.5Z')).toBe(Date.UTC(2027, 0, 31, 8, 30, 0, 500));
    expect([endOf(''), endOf('2027-13-01'), endOf('tomorrow')]).toEqual([null, null, null]);
  });
});

describe('the moment of a scheduled change', () => {
  it('is a minute to 90 days ahead, in UTC', () => {
    const at = (ahead: number) => new Date(now + ahead).toISOString().slice(0, 19);
    expect(momentOf('2026-11-21T12:00')).toBe(now);
    expect(momentProblem(at(60_000), now)).toBe('');
    expect(momentProblem(at(90 * day), now)).toBe('');
    expect(momentProblem(at(59_000), now)).toMatch(/at least a minute/);
    expect(momentProblem(at(90 * day + 1_000), now)).toMatch(/at most 90 days/);
  });

  it('is chosen', () => {
    for (const text of ['', 'tomorrow', '2026-11-21', '2026-13-21T12:00', '2026-11-21T12:00Z']) {
      expect(momentProblem(text, now)).toBe('Choose the moment.');
    }
  });
});
