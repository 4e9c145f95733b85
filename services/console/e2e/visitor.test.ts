// What a visitor without an account does: it asks a model, and sees what is left of its hour.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { launch, open, violations, visitor, type Visitor } from './browser';

let browser: Browser;
let who: Visitor;
beforeAll(async () => {
  browser = await launch();
  who = await visitor(browser);
});
afterAll(async () => browser.close());

describe('a visitor without a key', () => {
  it('asks a model in the playground, and sees how many answers are left', async () => {
    const { page } = who;
    await open(who, '/playground');
    await page.getByText('5 of 5 answers are left.').waitFor();
    await page.getByLabel('Message').fill('Say something.');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('4 of 5 answers are left.').waitFor();

    expect(await violations(page)).toEqual([]);
    expect(who.wrong).toEqual([]);
    expect(who.refused.filter((call) => !call.startsWith('401 POST /api/v1/user/refresh'))).toEqual([]);
  });
});
