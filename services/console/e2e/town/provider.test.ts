// How a provider gets through what blocks it, earns from real requests, is paid, and appeals; and what an operator
// does for it. The flows follow each other: each begins where the one before ended.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  asMachine,
  becomeOperator,
  call,
  fillSignIn,
  invited,
  signIn,
  signInOperator,
  signUp,
  until,
  type OperatorLogin,
  type TestUser,
} from '../accounts';
import { adminUrl, baseUrl, launch, needed, open, settled, violations, visitor, type Visitor } from '../browser';
import { mine, mint, send, stage, wallet } from './stage';

const model = needed('SVC_MODEL');

let browser: Browser;
let who: Visitor;
let staff: Visitor;
let user: TestUser;
let login: OperatorLogin;
let provider = '';
let key = '';
beforeAll(async () => {
  browser = await launch();
  who = await visitor(browser);
  staff = await visitor(browser, adminUrl);
  user = await signUp('Otto');
  login = await becomeOperator(staff, invited('town'));
  await asMachine('PUT', `models/${model}`, {
    name: 'Dear',
    input_price: '10000',
    output_price: '100000',
    payout_input_price: '9000',
    payout_output_price: '90000',
    context_length: 8192,
    max_output_tokens: 1024,
    capabilities: ['chat'],
  });
});
afterAll(async () => browser.close());

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name, exact: true });

/** Opens a page of the provider. A session that time has ended is opened anew. */
async function openOwn(path: string) {
  await open(who, path);
  if ((await who.page.locator('h1').first().textContent()) !== 'Sign in') return;
  await fillSignIn(who, user);
  await who.page.locator('h1:not(:text-is("Sign in"))').waitFor();
  await settled(who.page);
}

/** Opens a page of the provider until a text is on it. */
async function openUntil(path: string, text: string | RegExp) {
  await until(`${path} says ${text}`, async () => {
    await openOwn(path);
    return who.page.getByText(text).first().isVisible();
  });
}

/** Opens a page of the operators, who signs in anew where the session is over. */
async function openStaff(path: string) {
  await open(staff, path);
  if ((await staff.page.locator('h1').first().textContent()) !== 'Sign in as an operator') return;
  await signInOperator(staff, login);
  await open(staff, path);
}

/** Does an act of operators, with a reason. */
async function act(label: string, reason: string, done: string) {
  const { page } = staff;
  await button(page, label).first().click();
  const question = page.getByRole('dialog').last();
  await question.getByLabel('Reason').fill(reason);
  await question.getByRole('button', { name: label, exact: true }).click();
  await page.getByText(done).first().waitFor();
}

async function nothingWrong(at: Visitor) {
  expect(at.wrong).toEqual([]);
  expect(await violations(at.page)).toEqual([]);
}

describe('a provider who begins', () => {
  it('sees what blocks it, and why no payout can be asked for', async () => {
    const { page } = who;
    await signIn(who, user);
    await open(who, '/provider/start');
    await page.getByLabel('Name').fill('Otto GPUs');
    await page.getByLabel(/^Beneficiary address/).fill(wallet);
    await button(page, 'Become a provider').click();
    key = (await page.getByLabel('Provider key', { exact: true }).textContent()) ?? '';
    await open(who, '/provider');
    for (const blocker of ['Collateral is not confirmed', 'No agent is connected', 'No benchmark is passed yet'])
      await page.getByText(blocker).waitFor();
    await nothingWrong(who);
    await open(who, '/provider/payouts');
    await page.getByText('A payout cannot be asked for now').waitFor();
    await page.getByText(/a payout is at least \$10\.00/).waitFor();
    await nothingWrong(who);
    const me = await call<{ provider_id: string }>('GET', '/api/v1/provider/me', undefined, await token());
    provider = me.provider_id;
  });

  it('registers a server, whose wrong address is said at its field', async () => {
    const { page } = who;
    await open(who, '/provider/endpoints');
    await button(page, 'Register a server').first().click();
    const form = page.getByRole('dialog');
    const address = form.getByLabel('Address');
    await form.getByLabel('Name').first().fill('rack');
    await address.fill('ftp://example.org');
    await form
      .getByLabel(/^Model/)
      .first()
      .fill(model);
    await button(page, 'Register').click();
    await expect.poll(async () => address.getAttribute('aria-invalid')).toBe('true');
    await address.fill(needed('SVC_ENGINE_URL'));
    await button(page, 'Register').click();
    await form.waitFor({ state: 'hidden' });
    await openUntil('/provider/endpoints', 'yes, the marketplace calls it');
  });

  it('has no GPU of its own, asks for a review, and an operator waives the rule', async () => {
    const { page } = who;
    await openUntil('/provider', 'No machine fulfils the GPU rule');
    await open(who, '/provider/settings');
    await page.getByLabel('Hardware').fill('A server at a vendor <script>alert(1)</script>');
    await page.getByLabel(/^E-mail address/).fill('nobody');
    await button(page, 'Ask for a review').click();
    await expect.poll(async () => page.getByLabel(/^E-mail address/).getAttribute('aria-invalid')).toBe('true');
    await page.getByLabel(/^E-mail address/).fill(user.email);
    await button(page, 'Ask for a review').click();
    await page.getByText('Your application is with the operators.').waitFor();
    await openUntil('/provider', 'An operator looks at your application');
    await openStaff(`/providers/${provider}`);
    await act('Waive the GPU rule', 'an endpoint', 'Your word is recorded.');
    await openStaff(`/providers/${provider}`);
    await act('Approve the application', 'looks well', 'The application is approved.');
    await openUntil('/provider', 'rule waived by an operator');
    await nothingWrong(who);
  });

  it('deposits collateral from its wallet, runs its agent, and is active then', async () => {
    const { page } = who;
    await open(who, '/provider/collateral');
    await page.getByLabel(/^Amount in/).fill('-1');
    await button(page, 'Prepare the call').click();
    await expect.poll(async () => page.getByLabel(/^Amount in/).getAttribute('aria-invalid')).toBe('true');
    await page.getByLabel(/^Amount in/).fill('20');
    await page.getByLabel('How', { exact: true }).first().click();
    await page.getByRole('option', { name: /8453|Base/ }).click();
    await button(page, 'Prepare the call').click();
    const prepared = page.getByRole('alert').filter({ hasText: 'Send this from your wallet' });
    const to = async (start: RegExp) => (await prepared.getByText(start).locator('code').textContent()) ?? '';
    const data = async (label: string) => (await prepared.getByLabel(label, { exact: true }).textContent()) ?? '';
    const token = await to(/^Approval:/);
    await mint(8453, token, 20_000_000);
    await send(8453, token, await data('Data of the approval'));
    await send(8453, await to(/^Deposit:/), await data('Data of the deposit'));
    await stage(`connect/${provider}/${key}`);
    await openUntil('/provider', 'Nothing: you serve and earn.');
    await nothingWrong(who);
  });
});

describe('an active provider', () => {
  it('earns from requests that consumers send', async () => {
    const { page } = who;
    await ask(60);
    await openUntil('/provider/earnings', /of which \$\d+\.\d+ is not batched yet/);
    const today = page.getByText('Earned today', { exact: true }).locator('xpath=..');
    await expect.poll(async () => today.textContent()).toMatch(/\$[1-9]\d/);
    await nothingWrong(who);
  });

  it('asks for a payout once the day is over', async () => {
    const { page } = who;
    await stage('next-day');
    const amount = page.getByLabel('Amount in dollars, before the fee');
    await until('earnings are payable', async () => {
      await openOwn('/provider/payouts');
      return amount.isVisible();
    });
    await amount.fill('9.99');
    await page.getByText('A payout is at least $10.00.').waitFor();
    await amount.fill('ten');
    await page.getByText('This is no amount. Write it like 25.50.').waitFor();
    await amount.fill('12.50');
    await page.getByText('$12.50 less the fee of $1.00: you get $11.50.').waitFor();
    await button(page, 'Ask for $12.50').click();
    await page.getByText('A payout is open. The next one can be asked for once it has ended.').waitFor();
    await openUntil('/provider/payouts', 'Waits for an operator’s approval.');
    await nothingWrong(who);
  });

  it('is paid once an operator of more than 24 hours has approved', async () => {
    const { page } = staff;
    await openStaff('/payouts');
    await button(page, 'Approve').first().click();
    const question = page.getByRole('dialog').last();
    await question.getByLabel('Reason').fill('compared');
    await question.getByRole('button', { name: 'Approve', exact: true }).click();
    await question
      .getByRole('alert')
      .getByText(/24 hours/)
      .waitFor();
    await nothingWrong(staff);
    await stage('pass/24');
    await openStaff('/payouts');
    await act('Approve', 'compared', 'The payout is approved.');
    await until('the payout is confirmed', async () => {
      await mine(8453);
      await openOwn('/provider/payouts');
      return who.page
        .getByText(/^confirmed$/)
        .first()
        .isVisible();
    });
    await nothingWrong(who);
  });
});

describe('a penalty', () => {
  it('is appealed by the provider, and reversed by an operator, whose reason the provider reads', async () => {
    const { page } = who;
    const penalty = await stage<string>(`penalty/${provider}`);
    await openUntil('/provider/penalties', 'The share is set aside. You can appeal.');
    await nothingWrong(who);
    await button(page, 'Appeal').click();
    await expect
      .poll(async () => page.getByLabel('Why the penalty is wrong').getAttribute('aria-invalid'))
      .toBe('true');
    await page.getByLabel('Why the penalty is wrong').fill('The engine was updated at noon.');
    await button(page, 'Appeal').click();
    await page.getByText('You appealed, so the clock stands.').waitFor();

    await openStaff(`/penalties?penalty=${penalty}`);
    await staff.page.getByText('The engine was updated at noon.').waitFor();
    await nothingWrong(staff);
    await act('Reverse the penalty', 'he is right', 'The penalty is reversed.');

    await openUntil('/provider/penalties', 'The penalty is taken back');
    await page.getByText('he is right').waitFor();
    await nothingWrong(who);
  });
});

async function token(): Promise<string> {
  const answer = await call<{ token: string }>('POST', '/api/v1/user/login', {
    email: user.email,
    password: user.password,
  });
  return answer.token;
}

/** Has a consumer with credit ask the model so often. */
async function ask(times: number) {
  const consumer = await signUp('Bea');
  await asMachine('POST', `accounts/${consumer.accountId}/credit`, {
    amount_usd: '10000',
    idempotency_key: consumer.accountId,
    memo: 'a test',
  });
  await asMachine('PUT', `accounts/${consumer.accountId}/limits`, { requests_per_minute: -1, concurrent_requests: -1 });
  await until(`${model} is callable`, async () => {
    const { data } = await call<{ data: { id: string }[] }>('GET', '/v1/models');
    return data.some(({ id }) => id === model);
  });
  for (let sent = 0; sent < times; sent++) {
    const response = await fetch(`${baseUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${consumer.key}` },
      body: JSON.stringify({ model, max_tokens: 16, messages: [{ role: 'user', content: 'Say something.' }] }),
    });
    if (!response.ok) throw new Error(`request ${sent}: ${response.status} ${await response.text()}`);
  }
}
