// What a provider does: it becomes one, and makes and revokes keys.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { signIn, signUp } from './accounts';
import { launch, open, visitor, type Visitor } from './browser';

let browser: Browser;
let who: Visitor;
beforeAll(async () => {
  browser = await launch();
  who = await visitor(browser);
});
afterAll(async () => browser.close());

describe('a provider', () => {
  it('opens its account, and sees its first key', async () => {
    const { page } = who;
    await signIn(who, await signUp('Otto'));
    await open(who, '/provider/earnings');
    await page.getByRole('heading', { level: 1, name: 'Become a Computing Provider' }).waitFor();
    await page.getByLabel('Name').fill('Otto GPUs');
    await page.getByLabel(/^Beneficiary address/).fill('0x123');
    await page.getByRole('button', { name: 'Become a provider' }).click();
    await page.getByText(/0x/).last().waitFor();
    await page.getByLabel(/^Beneficiary address/).fill('');
    await page.getByRole('button', { name: 'Become a provider' }).click();
    expect(await page.getByLabel('Provider key', { exact: true }).textContent()).toMatch(/^sk-prov-/);
    await page.getByRole('navigation', { name: 'Pages' }).getByText('Standing').waitFor();
    expect(who.wrong).toEqual([]);
  });

  it('makes a key, and revokes the first', async () => {
    const { page } = who;
    await open(who, '/provider/keys');
    await page.getByLabel('Name').fill('garage');
    await page.getByRole('button', { name: 'Make a key' }).click();
    expect(await page.getByLabel('Provider key', { exact: true }).textContent()).toMatch(/^sk-prov-/);
    await page.getByRole('button', { name: 'I have kept it' }).click();
    const table = page.getByRole('table');
    await table.getByText('garage').waitFor();
    await table.getByRole('row').last().getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await table.getByText('revoked').waitFor();
    expect(who.wrong).toEqual([]);
  });
});
