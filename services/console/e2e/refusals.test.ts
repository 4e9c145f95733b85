// What pages say when the service refuses for a while, is away, or cannot be reached; and that a reader can go on.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { fillSignIn, signIn, signUp, signUpBusy, somePassword } from './accounts';
import { launch, needed, open, settled, violations, visitor, type Visitor } from './browser';
import { startWire, type Wire } from './wire';

let browser: Browser;
let wire: Wire;
beforeAll(async () => {
  browser = await launch();
  wire = await startWire();
});
afterAll(async () => {
  await browser.close();
  wire.close();
});

/** Runs a test as a visitor with cookies of its own, behind the wire. */
function asVisitor(claim: string, run: (who: Visitor) => Promise<void>) {
  it(claim, async () => {
    const who = await visitor(browser, undefined, { proxy: { server: wire.address, bypass: '<-loopback>' } });
    try {
      await run(who);
    } finally {
      await who.context.close();
    }
  });
}

const alert = (page: Page) => page.getByRole('main').getByRole('alert');
const again = (page: Page) => alert(page).getByRole('button', { name: 'Try again' });

describe('a service that refuses for a while', () => {
  asVisitor('says after many wrong passwords when to try again', async (who) => {
    const { email } = await signUp();
    const { page } = who;
    await open(who, '/sign-in');
    const soon = alert(page).getByText(/^Try again in /);
    for (let tries = 0; tries < 40 && !(await soon.isVisible()); tries++) {
      const before = who.refused.length;
      await fillSignIn(who, { email, password: somePassword() });
      await expect.poll(() => who.refused.length, { message: 'refusals' }).toBeGreaterThan(before);
      await settled(page);
    }
    await soon.waitFor();
    expect(who.refused.at(-1)).toBe('429 POST /api/v1/user/login');
    expect(await violations(page)).toEqual([]);
    expect(who.wrong).toEqual([]);
  });

  asVisitor('that a balancer answers for says when to try again, and the button asks anew', async (who) => {
    const { page } = who;
    await signIn(who, await signUp());
    const path = '**/api/v1/consumer/limits';
    await page.route(path, async (route) =>
      route.fulfill({
        status: 503,
        headers: { 'Retry-After': '90', 'Content-Type': 'text/html' },
        body: '<h1>503 Service Unavailable</h1><script>alert(1)</script>',
      }),
    );
    await open(who, '/limits');
    await alert(page).getByText('The service failed. Try again in a moment.').waitFor();
    await alert(page).getByText('Try again in 1 min 30 s.').waitFor();
    expect(await violations(page)).toEqual([]);
    expect(who.wrong).toEqual([]);
    await page.unroute(path);
    await again(page).click();
    await page.getByLabel('US dollars a day (UTC)').waitFor();
  });
});

describe('the playground without a session', () => {
  for (const [what, status, code] of [
    ['has no room', 429, 'rate_limit_exceeded'],
    ['is closed', 503, 'service_unavailable'],
  ] as const) {
    asVisitor(`that ${what} says that it is closed and when to try again, not that no answer is left`, async (who) => {
      const { page } = who;
      const path = '**/v1/playground/models';
      await page.route(path, async (route) =>
        route.fulfill({
          status,
          headers: { 'Retry-After': '2400' },
          json: { error: { message: `The playground ${what}.`, type: 'x', code, param: null } },
        }),
      );
      await open(who, '/playground');
      await alert(page).getByText('The playground is closed to visitors for now').waitFor();
      await alert(page).getByText('Try again in 40 min.').waitFor();
      expect(await page.getByText(/answers are left/).count()).toBe(0);
      expect(await violations(page)).toEqual([]);
      await page.unroute(path);
      await again(page).click();
      await page.getByText(/answers are left/).waitFor();
    });
  }
});

describe('a connection that is lost', () => {
  asVisitor('while a page is loaded is said plainly, and the button goes on where the reader was', async (who) => {
    const { page } = who;
    await signIn(who, await signUp());
    const refresh = '**/api/v1/user/refresh';
    let lost = 0;
    await page.route(refresh, async (route) => {
      lost += 1;
      await route.abort('connectionreset');
    });
    await open(who, '/limits');
    await page.getByText('We could not check whether you are signed in').waitFor();
    await page.getByText('The service did not answer. Check the connection, then try again.').waitFor();
    const before = lost;
    await again(page).click(); // it is still lost
    await expect.poll(() => lost).toBeGreaterThan(before);
    await page.getByText('We could not check whether you are signed in').waitFor();
    await page.unroute(refresh);
    await again(page).click();
    await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
    expect(who.wrong).toEqual([]);
  });

  asVisitor('on the way to another page is said plainly, and the button loads it', async (who) => {
    const { page, context } = who;
    await signIn(who, await signUp());
    await context.setOffline(true);
    await page.getByRole('navigation', { name: 'Pages' }).getByText('Billing', { exact: true }).click();
    await page.getByRole('heading', { name: 'This page could not be loaded' }).waitFor();
    await context.setOffline(false);
    await page.getByRole('button', { name: 'Load again' }).click();
    await page.getByRole('heading', { level: 1, name: 'Billing' }).waitFor();
  });

  asVisitor('in the middle of a stream is said plainly, and the button asks once more', async (who) => {
    const { page } = who;
    const user = await signUpBusy();
    await signIn(who, user);
    await open(who, `/playground?model=${encodeURIComponent(needed('SVC_MODEL'))}`);
    await page.getByLabel('Consumer key', { exact: true }).fill(user.key);
    await page.getByRole('button', { name: 'Use this key', exact: true }).click();
    await page.getByLabel('Message').fill('Say something long.');
    await page.getByLabel('Longest answer, in tokens').fill('200');
    wire.cut({ path: '/v1/chat/completions', after: 2000 });
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('The answer broke off', { exact: true }).waitFor();
    await page.getByText('The connection was lost before the answer ended.').waitFor();
    const log = page.getByRole('log', { name: 'Conversation' });
    await log.getByText('broken off').waitFor();
    expect(await violations(page)).toEqual([]);
    wire.mend();
    await again(page).click();
    await log.getByText(/tokens out/).waitFor();
    expect(await log.getByText('Say something long.').count()).toBe(1);
    expect(await alert(page).count()).toBe(0);
    expect(who.wrong).toEqual([]);
  });

  asVisitor('before the answer to a payment came does nothing twice', async (who) => {
    const { page } = who;
    const user = await signUp();
    await signIn(who, user);
    await open(who, '/credits');
    const path = '/api/v1/consumer/checkout';
    await page.getByLabel('Credit in US dollars').fill('25.00');
    wire.cut({ path, after: 0 });
    await page.getByRole('button', { name: 'Show the fee', exact: true }).click();
    await page.getByText('The service did not answer. Check the connection, then try again.').waitFor();
    wire.mend();
    await page.getByRole('button', { name: 'Show the fee', exact: true }).click();
    await page.getByRole('link', { name: 'Go to the card page' }).waitFor();
    const keys = wire.keysOf(path).filter((key) => key !== '');
    expect(keys.length).toBeGreaterThan(1);
    expect(new Set(keys).size).toBe(1);
    expect(who.wrong).toEqual([]);
  });
});
