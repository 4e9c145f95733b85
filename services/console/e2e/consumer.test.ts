// What a consumer does, from signing up to cancelling the plan, by the pages alone.

import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';

import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { somePassword } from './accounts';
import { launch, needed, open, visitor, type Visitor } from './browser';
import { linkIn } from './letters';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => browser.close());

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

/** The figure under a label. */
const figure = (page: Page, label: string): Locator => page.getByText(label, { exact: true }).locator('xpath=..');

describe('a consumer', () => {
  const email = `${randomUUID()}@example.org`;
  let who: Visitor;
  let page: Page;
  let firstKey = '';
  let key = '';
  let request = '';
  beforeAll(async () => {
    who = await visitor(browser);
    page = who.page;
  });
  afterAll(async () => who.context.close());

  it('signs up, and sees its first key once', async () => {
    await open(who, '/sign-up');
    await page.getByLabel('E-mail').fill(email);
    await page.getByLabel('Password', { exact: true }).fill(somePassword());
    await page.getByLabel('Name').fill('Carla <script>alert(1)</script>');
    await button(page, 'Sign up').click();
    firstKey = (await page.getByLabel('Your key').textContent()) ?? '';
    expect(firstKey).toMatch(/^sk-svc-/);
    await page.getByRole('link', { name: 'Overview' }).last().click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(await page.content()).not.toContain(firstKey);
  });

  it('makes no second key before it confirms its address', async () => {
    await open(who, '/keys');
    await button(page, 'Make a key').click();
    const form = page.getByRole('dialog');
    await form.getByLabel('Name').fill('too early');
    await button(page, 'Make the key').click();
    await form.getByRole('link', { name: 'Confirm your e-mail address' }).waitFor();
  });

  it('confirms its address by the link of the letter', async () => {
    const link = new URL(await linkIn('confirm', email));
    expect(link.origin).toBe(needed('SVC_BASE_URL'));
    await page.goto(link.href);
    await button(page, 'Confirm the address').click();
    await page.getByRole('heading', { name: 'Your e-mail address is confirmed' }).waitFor();
    expect(who.wrong).toEqual([]);
  });

  it('adds credit by the sandbox card', async () => {
    await open(who, '/credits');
    await page.getByLabel('Credit in US dollars').fill('25.00');
    await button(page, 'Show the fee').click();
    await page.getByRole('link', { name: 'Go to the card page' }).click();
    await page.getByRole('button', { name: /^Pay \$/ }).click();
    await page.getByText('Paid, with sandbox money.').waitFor();
    await page.getByRole('link', { name: 'Back to the site' }).click();
    await page.getByText('The credit is in the account.').waitFor();
    await expect.poll(async () => figure(page, 'Available credit').textContent()).toContain('$25.00');
  });

  it('makes a key that is shown once', async () => {
    await open(who, '/keys');
    await button(page, 'Make a key').click();
    const form = page.getByRole('dialog');
    await form.getByLabel('Name').fill('playground');
    await form.getByLabel('Budget in US dollars').fill('5');
    await button(page, 'Make the key').click();
    key = (await page.getByRole('dialog').locator('pre, code').first().textContent()) ?? '';
    expect(key).toMatch(/^sk-svc-/);
    await page.getByLabel('I have copied it to a safe place').check();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await page.getByRole('table').getByText('playground').waitFor();
    expect(await page.content()).not.toContain(key);
  });

  it('gets a streamed answer in the playground, which leads to its receipt', async () => {
    await open(who, `/playground?model=${encodeURIComponent(needed('SVC_MODEL'))}`);
    await page.getByLabel('Consumer key', { exact: true }).fill(key);
    await button(page, 'Use this key').click();
    await page.getByLabel('Message').fill('Say something.');
    await page.getByLabel('Longest answer, in tokens').fill('24');
    await button(page, 'Send').click();
    const log = page.getByRole('log', { name: 'Conversation' });
    await log.getByText(/tokens out/).waitFor();
    const receipt = log.getByRole('link', { name: 'Receipt' });
    request = ((await receipt.getAttribute('href')) ?? '').split('/').at(-1) ?? '';
    expect(request).not.toBe('');
    await receipt.click();
    await page.getByText('Settled', { exact: true }).first().waitFor();
    await page.getByText('Streamed', { exact: true }).waitFor();
    expect(who.wrong).toEqual([]);
  });

  it('finds the request in the list, and exports it as CSV', async () => {
    await expect
      .poll(
        async () => {
          await open(who, '/requests');
          return page.getByRole('link', { name: `receipt of request ${request}` }).count();
        },
        { timeout: 60_000 },
      )
      .toBe(1);
    const [file] = await Promise.all([page.waitForEvent('download'), button(page, 'Download CSV').click()]);
    const text = await readFile(await file.path(), 'utf8');
    expect(text.split('\n')[0]).toContain('request_id');
    expect(text).toContain(request);
  });

  it('subscribes to the plan, and cancels it', async () => {
    await open(who, '/plan');
    await button(page, 'Subscribe to Pro').click();
    await page.getByRole('link', { name: /on the card page$/ }).click();
    await page.getByRole('button', { name: /^Pay \$/ }).click();
    await page.getByText('Paid, with sandbox money.').waitFor();
    await open(who, '/plan');
    await page.getByText('Active', { exact: true }).waitFor();
    await button(page, 'Cancel the plan').click();
    const question = page.getByRole('dialog');
    await question.getByText(/It lasts until/).waitFor();
    await question.getByRole('button', { name: 'Cancel the plan' }).click();
    await page.getByText(/It is cancelled and lasts until/).waitFor();
    expect(who.wrong).toEqual([]);
  });
});
