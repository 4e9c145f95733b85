// What a test holds of each page that it looks at: nothing wrong for axe, no error of a script, no call that is
// refused, no sideways scrolling at 1024, 768 and 360 pixels, and less than 300 KB to load. It takes pictures on the way.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { baseUrl, firstPaint, open, overflow, violations, visitor, type Visitor } from './browser';

const maxBytes = 300 * 1024;
const wide = { width: 1440, height: 900 };
const narrow = { width: 360, height: 800 };
/** Widths of tablets and of small windows, at which no page scrolls sideways either. */
const between = [1024, 768];

/** The folder for pictures; empty for none. */
const shots = process.env.SCREENSHOTS ?? '';
if (shots !== '') mkdirSync(shots, { recursive: true });

/** The one picture of a page that is taken, for example `1440-light`; empty for all four. */
const only = process.env.SCREENSHOTS_ONLY ?? '';

/** When each page first showed something, in milliseconds after it was asked for. */
export const paints: number[] = [];

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

interface Looking {
  browser: () => Browser;
  /** Returns the ids of the addresses of pages. */
  prepare: (who: Visitor) => Promise<Record<string, string>>;
  site?: string;
}

/** Looks at pages, one after the other, as one visitor. */
export function looks(name: string, pages: string[], { browser, prepare, site = baseUrl }: Looking) {
  describe(name, () => {
    let who: Visitor;
    let ids: Record<string, string> = {};
    beforeAll(async () => {
      who = await visitor(browser(), site);
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
      await look(who, `${name} ${path}`);
    });
  });
}

/** Looks at the page that is open, wide and narrow. */
export async function look(who: Visitor, name: string) {
  const { page } = who;
  expect.soft(await violations(page), 'axe').toEqual([]);
  expect.soft(who.wrong, 'errors').toEqual([]);
  const refused = who.refused.filter((call) => !refusals.some((begin) => call.startsWith(begin)));
  expect.soft(refused, 'refused calls').toEqual([]);
  expect.soft(who.loaded(), 'bytes').toBeLessThan(maxBytes);
  await shoot(page, name, 1440);
  for (const width of between) {
    await page.setViewportSize({ width, height: 900 });
    await expect.poll(async () => overflow(page), { message: `pixels beyond ${width}` }).toBe(0);
  }
  await page.setViewportSize(narrow);
  await expect.poll(async () => overflow(page), { message: 'pixels beyond 360' }).toBe(0);
  await shoot(page, name, 360);
}

/** The file of a picture: what is no letter becomes a dash. */
export function pictureOf(name: string, width: number, scheme: 'light' | 'dark') {
  return join(shots, `${name.replace(/ \/$/, ' first').replace(/[^a-z]+/g, '-')}-${width}-${scheme}.png`);
}

/** Takes pictures, light and dark, and looks for colours that are hard to read in the dark. */
async function shoot(page: Page, name: string, width: number) {
  if (shots === '') return;
  for (const scheme of ['dark', 'light'] as const) {
    if (only !== '' && only !== `${width}-${scheme}`) continue;
    await page.emulateMedia({ colorScheme: scheme });
    await painted(page, scheme);
    await page.screenshot({ path: pictureOf(name, width, scheme), fullPage: true });
    if (scheme === 'dark' && width === 1440) expect.soft(await violations(page), 'axe in the dark').toEqual([]);
  }
}

/** Waits until a page has taken up a scheme of colours, with all that fades from the one to the other. */
export async function painted(page: Page, scheme: string) {
  await page.waitForFunction(
    (wanted) => document.documentElement.getAttribute('data-mantine-color-scheme') === wanted,
    scheme,
  );
  await page.evaluate(async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
  });
}
