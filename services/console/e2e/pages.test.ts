// Every page, as every kind of visitor sees it first: nothing wrong for axe, no error of a script, no call that is
// refused, no sideways scrolling at 360 pixels, and less than 300 KB to load.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  asMachine,
  becomeOperator,
  invited,
  signIn,
  signUp,
  signUpBusy,
  signUpProvider,
  type TestUser,
} from './accounts';
import {
  adminUrl,
  baseUrl,
  firstPaint,
  launch,
  needed,
  open,
  overflow,
  violations,
  visitor,
  type Visitor,
} from './browser';
import { consumerPages, operatorDoors, operatorPages, providerPages, publicPages } from './pages';

const maxBytes = 300 * 1024;
const wide = { width: 1440, height: 900 };
const narrow = { width: 360, height: 800 };

/** The folder for pictures; empty for none. */
const shots = process.env.SCREENSHOTS ?? '';

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
  if (shots !== '') mkdirSync(shots, { recursive: true });
});

const paints: number[] = [];
afterAll(async () => {
  await browser.close();
  paints.sort((a, b) => a - b);
  const at = (share: number) => Math.round(paints[Math.floor(share * (paints.length - 1))] ?? NaN);
  console.log(`first paint of ${paints.length} pages, in ms: median ${at(0.5)}, slowest ${at(1)}`);
});

/** Calls that are refused where nothing is wrong, by how they begin. */
const refusals = [
  // A visitor who is not signed in asks for a session.
  '401 POST /api/v1/user/refresh',
  '401 POST /api/v1/admin/session/refresh',
  // A marketplace without a playground for visitors has no such route.
  '404 GET /v1/playground/models',
  // A network has sixteen sessions of visitors at a time.
  '429 GET /v1/playground/models',
  // A month in which no plan was in force has no pool.
  '404 GET /api/v1/stats/plan-pool/',
];

/** Looks at pages, one after the other, as one visitor. `prepare` returns the ids of their addresses. */
function looks(
  name: string,
  pages: string[],
  prepare: (who: Visitor) => Promise<Record<string, string>>,
  site = baseUrl,
) {
  describe(name, () => {
    let who: Visitor;
    let ids: Record<string, string> = {};
    beforeAll(async () => {
      who = await visitor(browser, site);
      ids = await prepare(who);
    });
    afterAll(async () => who.context.close());

    it.each(pages)('%s', async (path) => {
      const { page } = who;
      await page.setViewportSize(wide);
      await open(
        who,
        path.replace(/:(\w+)/g, (_, id: string) => ids[id] ?? ''),
      );
      paints.push(await firstPaint(page));
      expect.soft(await violations(page), 'axe').toEqual([]);
      expect.soft(who.wrong, 'errors').toEqual([]);
      expect
        .soft(
          who.refused.filter((call) => !refusals.some((begin) => call.startsWith(begin))),
          'refused calls',
        )
        .toEqual([]);
      expect.soft(who.loaded(), 'bytes').toBeLessThan(maxBytes);
      await shoot(who, `${name} ${path}`, 1440);
      await page.setViewportSize(narrow);
      await expect.poll(async () => overflow(page), { message: 'pixels beyond 360' }).toBe(0);
      await shoot(who, `${name} ${path}`, 360);
    });
  });
}

/** Takes pictures, light and dark, and looks for colours that are hard to read in the dark. */
async function shoot({ page }: Visitor, name: string, width: number) {
  if (shots === '') return;
  const file = name.replace(/ \/$/, ' first').replace(/[^a-z]+/g, '-');
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    await painted(page, colorScheme);
    await page.screenshot({ path: join(shots, `${file}-${width}-${colorScheme}.png`), fullPage: true });
    if (colorScheme === 'dark' && width === 1440) expect.soft(await violations(page), 'axe in the dark').toEqual([]);
  }
}

/** Waits until a page has taken up a scheme of colours, with all that fades from the one to the other. */
async function painted(page: Page, scheme: string) {
  await page.waitForFunction(
    (wanted) => document.documentElement.getAttribute('data-mantine-color-scheme') === wanted,
    scheme,
  );
  await page.evaluate(async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
  });
}

async function enter(who: Visitor, user: Promise<TestUser>): Promise<Record<string, string>> {
  await signIn(who, await user);
  return {};
}

looks('anyone', publicPages, async () => ({ model: needed('SVC_MODEL') }));
looks('new consumer', ['/overview', '/billing', '/usage', '/requests', '/keys'], async (who) => enter(who, signUp()));
looks('consumer', consumerPages, async (who) => {
  const user = await signUpBusy();
  await signIn(who, user);
  return { request: user.request };
});
looks('provider', providerPages, async (who) => enter(who, signUpProvider()));
looks('anyone at the operators', operatorDoors, async () => ({}), adminUrl);
looks(
  'operator',
  operatorPages,
  async (who) => {
    const user = await signUpBusy();
    await becomeOperator(who, invited('pages'));
    const { list } = await asMachine<{ list: { provider_id: string }[] }>('GET', 'providers');
    return { model: needed('SVC_MODEL'), account: user.accountId, provider: list[0]?.provider_id ?? '' };
  },
  adminUrl,
);
