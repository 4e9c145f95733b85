// A marketplace that began a week ago: providers with collateral and earnings, consumers who have paid and asked,
// a payout and a penalty. All of it comes by the public API, but for what no call does: time and agents.

import { randomUUID } from 'node:crypto';

import { asMachine, call, signUp, until, type TestUser } from '../accounts';
import { baseUrl } from '../browser';
import { linkIn } from '../letters';
import { mine, mint, send, stage, wallet } from '../town/stage';

export interface Market {
  consumer: TestUser & { request: string };
  provider: TestUser & { id: string };
}

const chain = 8453;
const days = 6;
const perDay = 36;

const dear = 'deepseek-ai/DeepSeek-R1';
const models = [dear, 'meta-llama/Llama-3.3-70B-Instruct', 'Qwen/Qwen3-32B', 'mistralai/Mistral-Small-3.2-24B'];

export async function seed(): Promise<Market> {
  const provider = await provide('Noor', 'Aurora Compute', models, 32_768);
  const others = [
    await provide('Jonas', 'Basalt Labs', [...models.slice(1), 'google/gemma-3-4b-it'], 32_768),
    await provide('Li Wei', 'Northlight GPUs', ['BAAI/bge-m3', 'black-forest-labs/FLUX.1-schnell']),
  ];
  await deposit(provider, '500');
  const consumer = await fund(await person('Mira'));
  const consumers: (TestUser & { keys?: string[] })[] = [consumer];
  for (const name of ['Ada', 'Ben', 'Caro', 'Dev', 'Eva']) consumers.push(await credit(await person(name)));
  await until('all models are callable', async () => {
    const { data } = await call<{ data: unknown[] }>('GET', '/v1/models');
    return data.length >= 7;
  });
  const request = await live(consumers);
  await stage(`penalty/${others[0]?.id ?? ''}?model=${encodeURIComponent(models[1] ?? '')}`);
  await stage(`penalty/${provider.id}?model=${encodeURIComponent(models[2] ?? '')}`);
  await askPayout(provider);
  // The service's own figures are too old for a moment once days have passed.
  await until('the figures are new', async () => {
    const answers = await Promise.all(
      ['models', 'model-demand', 'service'].map(async (of) => fetch(`${baseUrl}/api/v1/stats/${of}`)),
    );
    return answers.every(({ ok }) => ok);
  });
  return { consumer: { ...consumer, request }, provider };
}

/** Has days pass in which consumers ask. Returns the id of the last request of the first of them. */
async function live(consumers: (TestUser & { keys?: string[] })[]): Promise<string> {
  let request = '';
  for (let day = 0; day <= days; day++) {
    const asks = Array.from({ length: perDay + ((day * 7) % 11) }, (_, n) => async () => {
      const who = consumers[n % 2 === 0 ? 0 : 1 + ((n >> 1) % (consumers.length - 1))];
      const key = who?.keys?.[n % who.keys.length] ?? who?.key ?? '';
      const id = await ask(key, n % 2 === day % 2 ? dear : (models[n % models.length] ?? dear), n);
      if (n % 2 === 0) request = id;
    });
    await inTurns(asks, 6);
    if (day < days) await stage(day + 1 < days ? 'next-day' : 'catch-up');
  }
  return request;
}

/** Runs what is to be done, so much of it at a time. */
async function inTurns(work: (() => Promise<void>)[], atOnce: number) {
  const queue = [...work];
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) await next();
    }),
  );
}

const questions = [
  'Summarise the minutes of this meeting in five points, with who does what until when.',
  'Which of these invoices are overdue, and by how many days?',
  'Translate the release notes into plain German.',
  'Find the bug in this function, and say why no test caught it.',
];

/** Asks a model, and returns the id of the request. */
async function ask(key: string, model: string, n: number): Promise<string> {
  const question = questions[n % questions.length] ?? '';
  const response = await fetch(`${baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model,
      stream: n % 3 !== 0,
      max_tokens: 2048,
      messages: [
        { role: 'user', content: `${question}\n\n${'The board met on Tuesday. '.repeat(2_400 + ((n * 53) % 1_400))}` },
      ],
    }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`a request to ${model}: ${response.status} ${text}`);
  return response.headers.get('X-Svc-Request-ID') ?? '';
}

/** Signs a user up whose address reads like one. */
const person = async (name: string) => signUp(name, `${name.toLowerCase().replace(' ', '.')}@example.org`);

/** Signs a user up who provides models, and waits until nothing but collateral may be missing. */
async function provide(
  owner: string,
  name: string,
  offered: string[],
  window?: number,
): Promise<TestUser & { id: string }> {
  const user = await person(owner);
  const made = await call<{ provider_id: string; provider_api_key: string }>(
    'POST',
    '/api/v1/user/upgrade-to-provider',
    { name, wallet_address: '', beneficiary_address: wallet },
    user.token,
  );
  const id = made.provider_id;
  await asMachine('POST', `providers/${id}/qualification`, {
    gpu_waived: true,
    ...(owner === 'Noor' ? {} : { collateral: true }),
    reason: 'its machines were looked at',
  });
  const query = offered.map((model) => `model=${encodeURIComponent(model)}`).join('&');
  await stage(`connect/${id}/${made.provider_api_key}?${query}${window === undefined ? '' : `&window=${window}`}`);
  return { ...user, id };
}

/** Puts collateral behind a provider from its wallet, in whole dollars. */
async function deposit(provider: TestUser, amount: string) {
  const prepared = await call<Record<'token_address' | 'approve_calldata' | 'contract' | 'calldata', string>>(
    'POST',
    '/api/v1/provider/collateral/deposit',
    { chain_id: chain, amount },
    provider.token,
  );
  await mint(chain, prepared.token_address, Number(amount) * 1_000_000);
  await send(chain, prepared.token_address, prepared.approve_calldata);
  await send(chain, prepared.contract, prepared.calldata);
}

/** Asks for a payout of what the days so far have earned. */
async function askPayout(provider: TestUser) {
  const { token } = await call<{ token: string }>('POST', '/api/v1/user/login', {
    email: provider.email,
    password: provider.password,
  });
  await until('earnings are payable', async () => {
    const earned = await call<{ payable_usd_str: string }>('GET', '/api/v1/provider/earnings', undefined, token);
    await mine(chain);
    return Number(earned.payable_usd_str) >= 10;
  });
  await call('POST', '/api/v1/provider/payouts', { amount_usd: '10' }, token);
}

async function credit(user: TestUser): Promise<TestUser> {
  await asMachine('POST', `accounts/${user.accountId}/credit`, {
    amount_usd: '50',
    idempotency_key: user.accountId,
    memo: 'a voucher',
  });
  return unlimited(user);
}

async function unlimited(user: TestUser): Promise<TestUser> {
  await asMachine('PUT', `accounts/${user.accountId}/limits`, { requests_per_minute: -1, concurrent_requests: -1 });
  return user;
}

/** Confirms a user's address, buys credit by the sandbox's card, and makes keys with budgets. */
async function fund(user: TestUser): Promise<TestUser & { keys: string[] }> {
  const link = new URL(await linkIn('confirm', user.email));
  await call('POST', '/api/v1/user/email/confirm', { token: link.hash.slice('#token='.length) });
  const { url } = await call<{ url: string }>('POST', '/api/v1/consumer/checkout', { amount_usd: '120' }, user.token);
  await fetch(url, { method: 'POST', body: new URLSearchParams({ action: 'pay' }), redirect: 'manual' });
  await until('the credit is in the account', async () => {
    const balance = await call<{ credit_usd_str: string }>('GET', '/api/v1/consumer/balance', undefined, user.token);
    return Number(balance.credit_usd_str) >= 120;
  });
  const keys: string[] = [];
  for (const [name, budget] of [
    ['production', '400'],
    ['nightly evaluation', '50'],
    ['notebook', '10'],
  ]) {
    const made = await call<{ api_key: string }>(
      'POST',
      '/api/v1/user/me/keys',
      { name, budget_usd: budget, budget_period: 'month' },
      user.token,
    );
    keys.push(made.api_key);
  }
  await call('PUT', '/api/v1/consumer/limits', { day_cap_usd: '50', month_cap_usd: '800' }, user.token);
  await call('POST', '/api/v1/user/me/webhooks', webhook, user.token);
  await unlimited(user);
  return { ...user, keys };
}

const webhook = { url: `https://hooks.example.org/${randomUUID().slice(0, 8)}`, description: 'billing', kinds: [] };
