// What must hold of a model in the catalog, checked while an operator types. The catalog decides when the
// model is saved (services/catalog: entry, price; pkg/money); these checks only say beforehand what it would
// answer. Prices are exact: they are counted in BigInt, and never become floating-point numbers.

export type Unit = 'per_1m_tokens' | 'per_image' | 'per_minute';

/** A model as it stands in the editor, with the API's names. Numbers and prices are texts, as they are typed. */
export interface Draft {
  model_id: string;
  slug: string;
  name: string;
  category: string;
  kind: string;
  tier: string;
  active: boolean;
  input_price: string;
  output_price: string;
  payout_input_price: string;
  payout_output_price: string;
  payout_cached_input_price: string;
  context_length: string;
  max_output_tokens: string;
  min_vram_gb: string;
  capabilities: string[];
  supported_parameters: string[];
  /** The day on which the model goes away, such as 2027-01-31, at its beginning in UTC; empty for none. */
  deprecated_at: string;
  successor: string;
}

export type PriceField =
  'input_price' | 'output_price' | 'payout_input_price' | 'payout_output_price' | 'payout_cached_input_price';

/** What the catalog has of a model now, as far as it bounds what may come. */
export interface Standing {
  kind: string;
  /** In milliseconds since 1970; null for a model that stays. */
  deprecatedAt: number | null;
}

/** What is wrong, by the API's name of the field. */
export type Problems = Partial<Record<keyof Draft, string>>;

const categories = ['llm', 'multimodal', 'embedding', 'image', 'audio'];
const noticeDays = 30;
/** How far ahead a scheduled change may be. */
const aheadDays = 90;
const day = 86_400_000;
const minute = 60_000;
const maxContext = 100_000_000;

/** The unit that models of a category are priced by. */
export function unitOf(category: string): Unit {
  if (category === 'image') return 'per_image';
  return category === 'audio' ? 'per_minute' : 'per_1m_tokens';
}

/** Decimals that a price of the unit may have. */
export function decimalsOf(unit: Unit): number {
  return unit === 'per_1m_tokens' ? 6 : 9;
}

/** The prices that a unit has: an image has an output price alone, a minute of audio an input price alone. */
export function counts(unit: Unit): { input: boolean; output: boolean } {
  return { input: unit !== 'per_image', output: unit !== 'per_minute' };
}

/** A price in the smallest part of a dollar that the unit has; null for a text that is no price. Empty is zero. */
export function parsePrice(unit: Unit, text: string): bigint | null {
  if (text === '') return 0n;
  const decimals = decimalsOf(unit);
  const match = /^([-+]?)(\d{0,18})(?:\.(\d{1,9}))?$/.exec(text);
  if (match === null) return null;
  const [, sign, whole = '', fraction = ''] = match;
  if (whole + fraction === '' || fraction.length > decimals) return null;
  const value = BigInt(whole + fraction.padEnd(decimals, '0'));
  return sign === '-' ? -value : value;
}

/** A price back as a decimal text with at least two decimals. */
export function formatPrice(unit: Unit, value: bigint): string {
  const decimals = decimalsOf(unit);
  const text = (value < 0n ? -value : value).toString().padStart(decimals + 1, '0');
  const fraction = text.slice(-decimals).replace(/0+$/, '').padEnd(2, '0');
  return `${value < 0n ? '-' : ''}${text.slice(0, -decimals)}.${fraction}`;
}

/** What the platform keeps of a price. */
export interface Margin {
  /** Dollars per unit, exact. */
  usd: string;
  /** Of the price, such as `10.00%`, rounded toward zero; null where nothing is charged. */
  share: string | null;
  negative: boolean;
}

/** Price less payout; null where one of them is no price. */
export function margin(unit: Unit, price: string, payout: string): Margin | null {
  const [a, b] = [parsePrice(unit, price), parsePrice(unit, payout)];
  if (a === null || b === null) return null;
  const rest = a - b;
  return { usd: formatPrice(unit, rest), share: a > 0n ? share(rest, a) : null, negative: rest < 0n };
}

function share(part: bigint, whole: bigint): string {
  const basis = (part * 10_000n) / whole;
  const text = (basis < 0n ? -basis : basis).toString().padStart(3, '0');
  return `${basis < 0n ? '-' : ''}${text.slice(0, -2)}.${text.slice(-2)}%`;
}

/** Reports whether two texts are the same price. */
export function samePrice(unit: Unit, a: string, b: string): boolean {
  const value = parsePrice(unit, a);
  return value === null ? a === b : value === parsePrice(unit, b);
}

/** All that is wrong with a draft. `now` is in milliseconds since 1970. */
export function check(draft: Draft, current: Standing | null, now: number): Problems {
  const said = { ...checkNames(draft), ...checkKind(draft, current), ...checkNumbers(draft) };
  return { ...said, ...checkPrices(draft), ...checkEnd(draft, current, now) };
}

function checkNames(draft: Draft): Problems {
  const problems: Problems = {};
  const id = idProblem(draft.model_id);
  if (id !== '') problems.model_id = id;
  if (
    draft.slug !== '' &&
    (!/^[A-Za-z0-9._:-]{1,128}$/.test(draft.slug) || draft.slug === '.' || draft.slug === '..')
  ) {
    problems.slug = 'A slug has 1 to 128 of A–Z a–z 0–9 . _ : - and is not . or ..';
  }
  // A name is counted in characters, not in the halves that some take in JavaScript.
  if ([...draft.name].length > 128 || /\p{Cc}/u.test(draft.name)) {
    problems.name = 'A name has at most 128 characters, none of them a control character.';
  }
  const capabilities = wordsProblem(draft.capabilities, 32);
  if (capabilities !== '') problems.capabilities = capabilities;
  const parameters = wordsProblem(draft.supported_parameters, 64);
  if (parameters !== '') problems.supported_parameters = parameters;
  if (draft.successor !== '') {
    const successor =
      draft.successor === draft.model_id ? 'The successor is another model.' : idProblem(draft.successor);
    if (successor !== '') problems.successor = successor;
  }
  return problems;
}

/** What is wrong with a model's id; empty for nothing. */
export function idProblem(id: string): string {
  if (id === '') return 'A model has an id.';
  if (id.length > 128) return 'An id has at most 128 characters.';
  const parts = id.split('/');
  if (parts.some((part) => part === '' || part === '.' || part === '..'))
    return 'No part between slashes is empty, . or ..';
  if (parts.some((part) => !/^[A-Za-z0-9._:-]+$/.test(part)))
    return 'An id has A–Z a–z 0–9 . _ : - with / between its parts.';
  const taken = id === 'catalog' || id.endsWith('/providers') || id.endsWith('/files');
  return taken ? 'An id is not catalog, and does not end in /providers or /files: these are routes.' : '';
}

function wordsProblem(words: string[], most: number): string {
  if (words.length > most) return `There are at most ${most}.`;
  const wrong = words.find((word) => !/^[a-z0-9._-]{1,48}$/.test(word));
  return wrong === undefined ? '' : `Each has 1 to 48 of a–z 0–9 . _ - and “${wrong.slice(0, 48)}” has not.`;
}

function checkKind(draft: Draft, current: Standing | null): Problems {
  const problems: Problems = {};
  if (!categories.includes(draft.category)) problems.category = 'Choose a category.';
  if (draft.kind !== 'open' && draft.kind !== 'gateway') problems.kind = 'Choose who serves it.';
  else if (current !== null && current.kind !== draft.kind) {
    problems.kind = 'Who serves a model does not change. Give the model another id.';
  }
  if (!['free', 'standard', 'premium'].includes(draft.tier)) problems.tier = 'Choose a tier.';
  else if (draft.kind === 'gateway' && draft.tier !== 'premium') {
    problems.tier = 'A gateway model is premium, because no plan pays a vendor.';
  }
  return problems;
}

function checkNumbers(draft: Draft): Problems {
  const problems: Problems = {};
  const context = whole(draft.context_length);
  if (context === null || context < 1 || context > maxContext)
    problems.context_length = 'From 1 to 100,000,000 tokens.';
  const output = whole(draft.max_output_tokens);
  if (output === null || (context !== null && output > context)) {
    problems.max_output_tokens = 'From 0 to the context window. 0 stands for the window where answers are tokens.';
  }
  const vram = whole(draft.min_vram_gb);
  if (vram === null || vram > 65_536) problems.min_vram_gb = 'From 0 to 65,536 GB. 0 stands for not known.';
  return problems;
}

/** A whole number that is not below zero; empty is zero; null for any other text. */
export function whole(text: string): number | null {
  if (text === '') return 0;
  return /^\d{1,10}$/.test(text) ? Number(text) : null;
}

function checkPrices(draft: Draft): Problems {
  const problems: Problems = {};
  const unit = unitOf(draft.category);
  for (const side of ['input', 'output'] as const) {
    const [priceField, payoutField] = [`${side}_price`, `payout_${side}_price`] as const;
    const price = parsePrice(unit, draft[priceField]);
    const wrong = checkPrice(unit, price, counts(unit)[side]);
    if (wrong !== '') problems[priceField] = wrong;
    const owed = checkPayout(unit, price, parsePrice(unit, draft[payoutField]));
    if (owed !== '') problems[payoutField] = owed;
  }
  const cached = checkCached(draft, unit);
  if (cached !== '') problems.payout_cached_input_price = cached;
  return problems;
}

function checkPrice(unit: Unit, price: bigint | null, counted: boolean): string {
  const most = unit === 'per_1m_tokens' ? 1_000_000n * 10n ** 6n : 1_000n * 10n ** 9n;
  if (price === null) return notAPrice(unit);
  if (price < 0n || price > most) return unit === 'per_1m_tokens' ? 'From $0 to $1,000,000.' : 'From $0 to $1,000.';
  if (price === 0n || counted) return '';
  return unit === 'per_image' ? 'An image has an output price alone.' : 'A minute of audio has an input price alone.';
}

function checkPayout(unit: Unit, price: bigint | null, payout: bigint | null): string {
  if (payout === null) return notAPrice(unit);
  if (payout < 0n) return 'A payout is not below zero.';
  if (price === null) return '';
  if (payout > price) return 'The payout is above the price.';
  return price > 0n && payout === 0n ? 'A model with a price has a payout.' : '';
}

function checkCached(draft: Draft, unit: Unit): string {
  const cached = parsePrice(unit, draft.payout_cached_input_price);
  const input = parsePrice(unit, draft.payout_input_price);
  if (cached === null) return notAPrice(unit);
  if (cached < 0n) return 'A payout is not below zero.';
  if (cached === 0n) return '';
  if (draft.kind !== 'gateway')
    return 'Only the vendor of a gateway model has a price for what it read from its cache.';
  if (unit !== 'per_1m_tokens')
    return 'Only models that are priced by tokens have a price for what was read from a cache.';
  return input !== null && cached > input ? 'It is above what other prompt tokens cost.' : '';
}

function notAPrice(unit: Unit): string {
  return `Dollars with at most ${decimalsOf(unit)} decimals, such as 0.25.`;
}

function checkEnd(draft: Draft, current: Standing | null, now: number): Problems {
  const announced = current?.deprecatedAt ?? null;
  if (draft.deprecated_at === '') {
    return announced === null ? {} : { deprecated_at: 'An end that was announced can be put off, but not taken back.' };
  }
  const wanted = endOf(draft.deprecated_at);
  if (wanted === null) return { deprecated_at: 'A day, such as 2027-01-31.' };
  if (announced !== null && wanted >= announced) return {};
  if (wanted >= now + noticeDays * day) return {};
  return { deprecated_at: `A model goes away at least ${noticeDays} days after it is announced.` };
}

/** What is wrong with the moment of a scheduled change; empty for nothing. `now` is in milliseconds since 1970. */
export function momentProblem(text: string, now: number): string {
  const at = momentOf(text);
  if (at === null) return 'Choose the moment.';
  if (at < now + minute) return 'The moment is at least a minute ahead.';
  return at > now + aheadDays * day ? `The moment is at most ${aheadDays} days ahead.` : '';
}

/** A moment in UTC as an input writes it, such as 2027-01-31T12:00; null for any other text. */
export function momentOf(text: string): number | null {
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?$/.test(text)) return null;
  const at = Date.parse(`${text}Z`);
  return Number.isNaN(at) ? null : at;
}

/** The moment at which a day begins in UTC, or the moment that a text names; null for any other text. */
export function endOf(text: string): number | null {
  if (!/^\d{4}-\d{2}-\d{2}(T[0-9:.]+Z)?$/.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}
