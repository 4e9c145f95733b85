// Who is signed in: wrong passwords, sessions that end, forgotten passwords, and ids of other accounts.

import { randomUUID } from 'node:crypto';

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { call, fillSignIn, signIn, signUp, signUpBusy, somePassword, until } from './accounts';
import { launch, open, settled, visitor, type Visitor } from './browser';
import { linkIn } from './letters';

let browser: Browser;
let who: Visitor;
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => browser.close());

/** Runs a test as a visitor with cookies of its own. */
function asVisitor(claim: string, run: (who: Visitor) => Promise<void>) {
  it(claim, async () => {
    who = await visitor(browser);
    try {
      await run(who);
      expect(who.wrong).toEqual([]);
    } finally {
      await who.context.close();
    }
  });
}

describe('a session', () => {
  asVisitor('is not opened by a wrong password, and the form says so', async ({ page }) => {
    const user = await signUp();
    await open(who, '/sign-in');
    await fillSignIn(who, { email: user.email, password: somePassword() });
    await page.getByRole('alert').waitFor();
    expect(page.url()).toMatch(/\/app\/sign-in$/);
    await fillSignIn(who, user);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  });

  asVisitor('lasts over a reload, and is in no storage that scripts can read', async ({ page, context }) => {
    const user = await signUp();
    await signIn(who, user);
    await page.reload();
    await settled(page);
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    const kept = await page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    );
    expect(kept).not.toMatch(/ey[A-Za-z0-9_-]{10}|sk-svc|sess/);
    const cookies = await context.cookies();
    expect(cookies.length).toBeGreaterThan(0);
    for (const { name, httpOnly, sameSite } of cookies)
      expect({ httpOnly, sameSite }, name).toEqual({ httpOnly: true, sameSite: 'Lax' });
  });

  asVisitor('that ends leads to signing in, and back to where the reader was', async ({ page, context }) => {
    const user = await signUp();
    await signIn(who, user);
    await context.clearCookies();
    await open(who, '/usage?by=key');
    await page.getByText('You come back to where you were.').waitFor();
    await fillSignIn(who, user);
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
    expect(page.url()).toMatch(/\/app\/usage\?by=key$/);
  });

  asVisitor('that another device ends leads to signing in, and back', async ({ page }) => {
    const user = await signUp();
    await signIn(who, user);
    await open(who, '/limits');
    await call('POST', '/api/v1/user/logout', { everywhere: true }, user.token);
    const back = page.getByText('You come back to where you were.');
    let wanted = '';
    // A gateway remembers for some seconds that a session is good.
    await until('the page leads to signing in', async () => {
      const next = wanted === 'Billing' ? 'Limits' : 'Billing';
      const place = page.getByRole('navigation', { name: 'Pages' }).getByText(next, { exact: true });
      await place.click({ timeout: 15_000 }).then(
        () => (wanted = next),
        () => undefined, // the menu is gone with the session
      );
      await settled(page);
      return back.isVisible();
    });
    await fillSignIn(who, user);
    await page.getByRole('heading', { level: 1, name: wanted }).waitFor();
  });

  asVisitor('is opened with a new password after a letter', async ({ page }) => {
    const user = await signUp();
    await call('POST', '/api/v1/user/email/confirm', { token: tokenOf(await linkIn('confirm', user.email)) });
    await open(who, '/password');
    await page.getByLabel('E-mail').fill(user.email);
    await page.getByRole('button', { name: 'Send the letter' }).click();
    await page.getByText('Look into your mail').waitFor();
    await page.goto(await linkIn('reset', user.email));
    await settled(page);
    const password = somePassword();
    await page.getByLabel('New password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Set the password' }).click();
    await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click();
    await fillSignIn(who, { email: user.email, password });
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  });

  asVisitor('ends with signing out, also for the back button', async ({ page }) => {
    await signIn(who, await signUp('Dora'));
    await page.getByRole('button', { name: 'Dora' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('link', { name: 'Sign in' }).waitFor();
    await open(who, '/overview');
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  });
});

describe('ids of another account', () => {
  asVisitor('get 404 through the pages', async ({ page }) => {
    const other = await signUpBusy();
    const { list } = await call<{ list: { key_id: string }[] }>('GET', '/api/v1/user/me/keys', undefined, other.token);
    const checkout = await call<{ checkout_id: string }>(
      'POST',
      '/api/v1/consumer/checkout',
      { amount_usd: '5.00' },
      other.token,
    );
    await signIn(who, await signUp());
    for (const path of [
      `/requests/${other.request}`,
      `/requests/${randomUUID()}`,
      `/keys?key=${list[0]?.key_id ?? ''}`,
      `/credits?checkout=${checkout.checkout_id}`,
    ]) {
      await open(who, path);
      await page.getByRole('alert').getByText('There is no such thing here').waitFor();
      expect(
        who.refused.filter((refusal) => refusal.startsWith('404')),
        path,
      ).toHaveLength(1);
    }
  });
});

function tokenOf(link: string): string {
  return link.split('#token=')[1] ?? '';
}
