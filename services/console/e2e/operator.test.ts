// What operators do: they accept an invitation, change a price, give credit, and invite others with lesser roles.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { asMachine, becomeOperator, invited, signUp, signUpBusy } from './accounts';
import { adminUrl, launch, open, violations, visitor, type Visitor } from './browser';

let browser: Browser;
let who: Visitor;
beforeAll(async () => {
  browser = await launch();
  who = await visitor(browser, adminUrl);
});
afterAll(async () => browser.close());

describe('an operator', () => {
  it('accepts an invitation, confirms a first code, and signs in', async () => {
    await open(who, '/settlement');
    await who.page.getByRole('heading', { level: 1, name: 'Sign in as an operator' }).waitFor();
    await becomeOperator(who, invited('operator'));
    expect(who.wrong).toEqual([]);
  });

  it('reads how a request was routed, and what was passed over', async () => {
    const { page } = who;
    const { request } = await signUpBusy();
    await open(who, `/requests?id=${request}`);
    await page.getByText(/^The provider was chosen among those that were eligible/).waitFor();
    await page.getByRole('table', { name: 'Attempts of the request' }).getByText('served').waitFor();
    await page.getByRole('heading', { name: 'Passed over' }).waitFor();
    expect(await violations(page)).toEqual([]);
    expect(who.wrong).toEqual([]);
  });

  it('changes a price once nothing is wrong with it', async () => {
    const { page } = who;
    const model = 'test/of-an-operator';
    await asMachine('PUT', `models/${model}`, {
      name: 'A model',
      input_price: '1',
      output_price: '3',
      payout_input_price: '0.9',
      payout_output_price: '2.7',
      context_length: 8192,
      max_output_tokens: 1024,
      capabilities: ['chat'],
    });
    await open(who, `/catalog/${model}`);
    const save = page.getByRole('button', { name: 'Save' });
    await page.getByLabel('Output price').fill('2');
    await page.getByText('Still wrong:').waitFor(); // the payout is above the price
    expect(await save.getAttribute('aria-disabled')).toBe('true');
    await page.getByLabel('Output price').fill('4.5');
    await save.click();
    const question = page.getByRole('dialog');
    await question.getByText('It takes effect at once.').waitFor();
    await question.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The model is changed.').waitFor();
    await open(who, `/catalog/${model}`);
    expect(Number(await page.getByLabel('Output price').inputValue())).toBe(4.5);
    await open(who, '/acts');
    await page.getByRole('table').getByText('operator.admin').first().waitFor();
    expect(who.wrong).toEqual([]);
  });

  it('schedules a price, which consumers see coming, and cancels it', async () => {
    const { page } = who;
    const model = 'test/of-an-operator';
    await open(who, `/catalog/${model}`);
    await page.getByLabel('Output price').fill('6');
    await page.getByLabel('From', { exact: true }).selectOption('moment');
    const schedule = page.getByRole('button', { name: 'Schedule', exact: true });
    expect(await schedule.getAttribute('aria-disabled')).toBe('true'); // no moment is chosen yet
    await page.getByLabel('Moment (UTC)').fill(new Date(Date.now() + 86_400_000).toISOString().slice(0, 16));
    await schedule.click();
    await page.getByRole('dialog').getByRole('button', { name: 'Schedule', exact: true }).click();
    await page.getByText('The change waits for its moment.').waitFor();
    const reader = await visitor(browser);
    await open(reader, `/models/${model}`);
    await reader.page.getByText('The prices of this model change').waitFor();
    expect(reader.wrong).toEqual([]);
    await open(who, `/catalog/${model}`);
    expect(Number(await page.getByLabel('Output price').inputValue())).toBe(4.5);
    const waits = page.getByRole('table', { name: 'What the change that waits would change' });
    await waits.getByText('6.00').waitFor();
    await page.getByRole('button', { name: 'Cancel the change' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the change' }).click();
    await page.getByText('The change is cancelled.').waitFor();
    await page.getByText('No change waits.').waitFor();
    expect(who.wrong).toEqual([]);
  });

  it('finds an account, and sees another one’s id as none', async () => {
    const { page } = who;
    const user = await signUp();
    await open(who, `/accounts/${user.accountId}`);
    expect(who.refused).toEqual([]);
    await open(who, '/accounts/00000000-0000-7000-8000-000000000000');
    await page.getByRole('alert').getByText('There is no such thing here').first().waitFor();
  });

  it('is signed out, and no page of the public site knows it', async () => {
    const { page } = who;
    await page.getByRole('button', { name: 'operator.admin' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await open(who, '/ledger');
    await page.getByRole('heading', { level: 1, name: 'Sign in as an operator' }).waitFor();
  });
});
