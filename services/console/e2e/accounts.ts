// Accounts of a test's own, made by the public API, and how their owners sign in.

import { createHmac, randomUUID } from 'node:crypto';

import { adminUrl, baseUrl, fromElsewhere, needed, open, type Visitor } from './browser';

export interface TestUser {
  email: string;
  password: string;
  token: string;
  accountId: string;
  /** The consumer key that sign-up shows once. */
  key: string;
}

/** Calls the API as a program does, and fails with what it answered. */
export async function call<T>(method: string, path: string, body?: unknown, token = '', site = baseUrl): Promise<T> {
  const keyed = typeof body === 'object' && body !== null && 'idempotency_key' in body;
  const response = await fetch(site + path, {
    method,
    headers: {
      'Content-Type': 'application/json',
      ...fromElsewhere(),
      ...(keyed ? {} : { 'Idempotency-Key': randomUUID() }),
      ...(token === '' ? {} : { Authorization: `Bearer ${token}` }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as T;
}

/** Calls the operators' API as a machine does. */
export async function asMachine<T>(method: string, path: string, body?: unknown): Promise<T> {
  return call<T>(method, `/api/v1/admin/${path}`, body, needed('SVC_ADMIN_TOKEN'), adminUrl);
}

export const somePassword = () => `correct horse ${randomUUID()}`;

/** Signs a new user up. */
export async function signUp(name = 'Ann', email = `${randomUUID()}@example.org`): Promise<TestUser> {
  const user = { email, password: somePassword() };
  const answer = await call<{ token: string; api_key: string; user: { account_id: string } }>(
    'POST',
    '/api/v1/user/signup',
    { ...user, display_name: name },
  );
  return { ...user, token: answer.token, accountId: answer.user.account_id, key: answer.api_key };
}

/** Signs a new user up who has credit and has sent a request; returns the request's id, too. */
export async function signUpBusy(): Promise<TestUser & { request: string }> {
  const user = await signUp('Bea');
  await asMachine('POST', `accounts/${user.accountId}/credit`, {
    amount_usd: '25',
    idempotency_key: user.accountId,
    memo: 'a test',
  });
  const response = await fetch(`${baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${user.key}` },
    body: JSON.stringify({
      model: needed('SVC_MODEL'),
      max_tokens: 16,
      messages: [{ role: 'user', content: 'Say something.' }],
    }),
  });
  const request = response.headers.get('X-Svc-Request-ID') ?? '';
  if (!response.ok) throw new Error(`the request ${request}: ${response.status} ${await response.text()}`);
  await until(`request ${request} is settled`, async () => {
    const page = await call<{ requests: unknown[] }>('GET', '/api/v1/consumer/usage/requests', undefined, user.token);
    return page.requests.length > 0;
  });
  return { ...user, request };
}

/** Signs a new user up who becomes a provider. */
export async function signUpProvider(): Promise<TestUser> {
  const user = await signUp('Olive');
  await call(
    'POST',
    '/api/v1/user/upgrade-to-provider',
    { name: 'Olive GPUs', wallet_address: '', beneficiary_address: '' },
    user.token,
  );
  return user;
}

/** Signs in by the page, so that the browser has the cookie. */
export async function signIn(who: Visitor, user: { email: string; password: string }) {
  await open(who, '/sign-in');
  await fillSignIn(who, user);
  await who.page.getByRole('navigation', { name: 'Pages' }).getByText('My account').waitFor();
}

/** Fills in the form of signing in, and sends it. */
export async function fillSignIn({ page }: Visitor, user: { email: string; password: string }) {
  await page.getByLabel('E-mail').fill(user.email);
  await page.getByLabel('Password', { exact: true }).fill(user.password);
  await page.getByRole('main').getByRole('button', { name: 'Sign in', exact: true }).click();
}

/** An operator who was invited, and has not accepted yet. An invitation is good once, so each file of tests has one. */
export function invited(by: 'pages' | 'operator' | 'forms' | 'town') {
  return { name: `${by}.admin`, invitation: needed(`SVC_INVITATION_${by.toUpperCase()}`) };
}

/** How an operator signs in. A code counts once, so the last half minute of which one was used is kept. */
export interface OperatorLogin {
  name: string;
  password: string;
  secret: string;
  used: number;
}

/** Accepts an invitation and signs in, all by the pages. */
export async function becomeOperator(
  who: Visitor,
  { name, invitation }: ReturnType<typeof invited>,
): Promise<OperatorLogin> {
  const { page } = who;
  const password = somePassword();
  await open(who, `/accept#${invitation}`);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByLabel('Password once more').fill(password);
  await page.getByRole('button', { name: 'Choose this password' }).click();
  const secret = (await page.locator('dt:text-is("Secret") + dd code').textContent()) ?? '';
  const login = { name, password, secret, used: 0 };
  await page.getByLabel('Code', { exact: true }).fill(await nextCode(login));
  await page.getByRole('button', { name: 'Confirm the first code' }).click();
  await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click();
  await signInOperator(who, login);
  return login;
}

/** Fills in the operators' form of signing in, and sends it. */
export async function signInOperator({ page }: Visitor, login: OperatorLogin) {
  await page.getByLabel('Name', { exact: true }).fill(login.name);
  await page.getByLabel('Password', { exact: true }).fill(login.password);
  await page.getByLabel('Code', { exact: true }).fill(await nextCode(login));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).getByText('The books').waitFor();
}

/** Waits until something holds, for three minutes at most. */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 180_000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const codePeriod = 30_000;

/** The code of this half minute or, where that was used, of the next one, as soon as it counts: half a minute early. */
async function nextCode(login: OperatorLogin): Promise<string> {
  const step = () => Math.floor(Date.now() / codePeriod);
  login.used = Math.max(step(), login.used + 1);
  await until('the next code counts', async () => login.used <= step() + 1);
  return codeAt(login.secret, login.used * codePeriod);
}

/** The code of RFC 6238 that a secret has at a time in milliseconds: SHA-1, 6 digits, 30 seconds. */
export function codeAt(secret: string, time: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(time / codePeriod)));
  const mac = createHmac('sha1', base32(secret)).update(counter).digest();
  const offset = (mac.at(-1) ?? 0) & 15;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

function base32(text: string): Buffer {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  let bits = '';
  for (const letter of text.replace(/[=\s]/g, '').toUpperCase())
    bits += alphabet.indexOf(letter).toString(2).padStart(5, '0');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)));
}
