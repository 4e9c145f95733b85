// What forms do with what is no good: the service's word stands at the field that it is about, and text that is a
// program is shown as the text that it is.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { becomeOperator, call, invited, signIn, signUp, signUpProvider, type TestUser } from './accounts';
import { adminUrl, launch, open, violations, visitor, type Visitor } from './browser';
import { linkIn } from './letters';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => browser.close());

const hostile = '"><img src=x onerror=alert(1)>{{7*7}}';
const huge = '9'.repeat(20_000);

interface Case {
  /** The page, and the button that opens the form; empty where it is open. */
  path: string;
  opens?: string;
  /** What is written into which field. */
  fields: [label: string, value: string][];
  button: string;
  /** The field at which the error stands. */
  at: string;
}

/** Sends forms, and looks where their errors stand. */
function refused(name: string, cases: Case[], prepare: () => Promise<Visitor>) {
  describe(name, () => {
    let who: Visitor;
    beforeAll(async () => {
      who = await prepare();
    });
    afterAll(async () => who.context.close());

    it.each(cases)('$path: $button with a wrong $at', async ({ path, opens = '', fields, button, at }) => {
      const { page } = who;
      await open(who, path.replace(':account', account));
      if (opens !== '') await press(page, opens);
      const form = opens === '' ? page.getByRole('main') : page.getByRole('dialog').last();
      for (const [label, value] of fields) await form.getByLabel(label).first().fill(value);
      await form.getByRole('button', { name: button, exact: true }).first().click();
      const field = form.getByLabel(at).first();
      await expect.poll(async () => field.getAttribute('aria-invalid'), { message: `the field ${at}` }).toBe('true');
      const described = ((await field.getAttribute('aria-describedby')) ?? '').split(' ');
      const said = await page.locator(described.map((id) => `[id="${id}"]`).join(',')).allTextContents();
      expect(said.join(' ').trim(), 'what is said').toMatch(/\S.*\S/);
      expect.soft((await violations(page)).join('\n'), 'axe').toBe('');
      expect.soft(who.wrong, 'errors').toEqual([]);
    });
  });
}

async function press(page: Page, name: string) {
  await page.getByRole('main').getByRole('button', { name, exact: true }).first().click();
}

/** A visitor who is signed in as somebody whose address is confirmed. */
async function confirmed(user: TestUser): Promise<Visitor> {
  const token = (await linkIn('confirm', user.email)).split('#token=')[1] ?? '';
  await call('POST', '/api/v1/user/email/confirm', { token });
  const who = await visitor(browser);
  await signIn(who, user);
  return who;
}

refused(
  'the form of a visitor',
  [
    {
      path: '/sign-up',
      fields: [
        ['E-mail', hostile],
        ['Password', 'a long password'],
      ],
      button: 'Sign up',
      at: 'E-mail',
    },
    {
      path: '/sign-up',
      fields: [
        ['E-mail', 'a@example.org'],
        ['Password', 'short'],
      ],
      button: 'Sign up',
      at: 'Password',
    },
    { path: '/sign-up', fields: [], button: 'Sign up', at: 'E-mail' },
  ],
  async () => visitor(browser),
);

refused(
  'the form of a consumer',
  [
    { path: '/credits', fields: [['Credit in US dollars', '-5']], button: 'Show the fee', at: 'Credit in US dollars' },
    { path: '/credits', fields: [['Credit in US dollars', huge]], button: 'Show the fee', at: 'Credit in US dollars' },
    { path: '/limits', fields: [['US dollars a day', '1e9']], button: 'Save the caps', at: 'US dollars a day' },
    { path: '/limits', fields: [['US dollars a month', hostile]], button: 'Save the caps', at: 'US dollars a month' },
    {
      path: '/keys',
      opens: 'Make a key',
      fields: [
        ['Name', hostile],
        ['Budget in US dollars', '-1'],
      ],
      button: 'Make the key',
      at: 'Budget in US dollars',
    },
    {
      path: '/webhooks-of-account',
      opens: 'Add a webhook',
      fields: [['Address', 'ftp://example.org/']],
      button: 'Add the webhook',
      at: 'Address',
    },
    { path: '/settings', fields: [['US dollars', 'ten']], button: 'Save the bound', at: 'US dollars' },
  ],
  async () => confirmed(await signUp(hostile)),
);

refused(
  'the form of a provider',
  [
    {
      path: '/provider/settings',
      fields: [['New beneficiary address', '0x1234']],
      button: 'Change the address',
      at: 'New beneficiary address',
    },
    {
      path: '/provider/settings',
      fields: [
        ['Hardware', hostile],
        ['E-mail address', 'nobody'],
      ],
      button: 'Ask for a review',
      at: 'E-mail address',
    },
  ],
  async () => {
    const who = await visitor(browser);
    await signIn(who, await signUpProvider());
    return who;
  },
);

let account = '';
refused(
  'the form of an operator',
  [
    { path: '/operators', opens: 'Invite', fields: [['Name', "Robert'); DROP"]], button: 'Invite', at: 'Name' },
    {
      path: '/accounts/:account',
      opens: 'Give credit',
      fields: [
        ['Amount in US dollars', '1,5'],
        ['Reason', 'x'],
      ],
      button: 'Give credit',
      at: 'Amount in US dollars',
    },
  ],
  async () => {
    account = (await signUp()).accountId;
    const who = await visitor(browser, adminUrl);
    await becomeOperator(who, invited('forms'));
    return who;
  },
);
