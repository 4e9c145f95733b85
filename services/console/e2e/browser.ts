// A real browser on the pages of a running marketplace. The environment names it, as demo.env does:
// SVC_BASE_URL, SVC_ADMIN_URL and CHROMIUM (by default /usr/bin/chromium).

import { randomBytes } from 'node:crypto';

import axe from 'axe-core';
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from 'playwright-core';

export const baseUrl = needed('SVC_BASE_URL');
export const adminUrl = needed('SVC_ADMIN_URL');

export function needed(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} is not set: run make console-e2e`);
  return value;
}

export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/**
 * The headers of a visitor with an address of its own, which the gateway of the tests believes: sign-ups and wrong
 * passwords are counted by address.
 */
export function fromElsewhere(): Record<string, string> {
  const network = randomBytes(4).toString('hex');
  return { 'X-Forwarded-For': `2001:db8:${network.slice(0, 4)}:${network.slice(4)}::1` };
}

/** A visitor with cookies of its own, and what went wrong in its pages. */
export interface Visitor {
  context: BrowserContext;
  page: Page;
  /** The root of the site that it visits. */
  site: string;
  /** Errors of scripts, refusals of the Content-Security-Policy, and requests that no page may make. */
  wrong: string[];
  /** Calls that the service refused, as `404 GET /api/v1/x`. */
  refused: string[];
  /** What the last `open` loaded, in bytes as they came over the network, with nothing in the cache. */
  loaded: () => number;
}

export async function visitor(browser: Browser, site = baseUrl, options: BrowserContextOptions = {}): Promise<Visitor> {
  const context = await browser.newContext({
    baseURL: site,
    viewport: { width: 1440, height: 900 },
    colorScheme: 'light',
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
    extraHTTPHeaders: fromElsewhere(),
    ...options,
  });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const who: Visitor = { context, page, site, wrong: [], refused: [], loaded: () => bytes };
  let bytes = 0;
  watch(who);
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  session.on('Network.loadingFinished', (event) => {
    bytes += event.encodedDataLength;
  });
  page.on('framenavigated', (frame) => {
    if (frame === page.mainFrame()) bytes = 0;
  });
  return who;
}

function watch({ page, site, wrong, refused }: Visitor) {
  page.on('pageerror', (error) => wrong.push(`script: ${error.message}`));
  page.on('console', (message) => {
    // A refused call is an answer that the page shows; the browser logs it all the same.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
      wrong.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    const own = [`${site}/`, 'data:', 'blob:'].some((start) => url.startsWith(start));
    if (!own) wrong.push(`a request to another site: ${url}`);
  });
  page.on('response', (response) => {
    if (response.status() < 400) return;
    const { pathname } = new URL(response.url());
    refused.push(`${response.status()} ${response.request().method()} ${pathname}`);
  });
}

/** Opens a page by its address and waits until its content is there. */
export async function open(visitor: Visitor, path: string): Promise<void> {
  visitor.wrong.length = 0;
  visitor.refused.length = 0;
  await visitor.page.goto(`/app${path}`);
  await settled(visitor.page);
}

/** Waits until a page has its heading and nothing on it is still loading. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.waitForLoadState('networkidle');
  await page.waitForFunction(() => document.querySelector('[aria-label="Loading"]') === null);
}

/** What axe finds wrong on a page, of any impact: a line for each element. */
export async function violations(page: Page): Promise<string[]> {
  // A colour that is on its way to another one has a contrast that nobody sees for long.
  await page.evaluate(async () => {
    const ends = (one: Animation) => Number.isFinite(Number(one.effect?.getComputedTiming().endTime));
    await Promise.allSettled(
      document
        .getAnimations()
        .filter(ends)
        .map(async (one) => one.finished),
    );
  });
  await page.evaluate(axe.source);
  const results = await page.evaluate(async () => {
    const run = (window as unknown as { axe: typeof axe }).axe;
    return run.run(document, { resultTypes: ['violations'] });
  });
  return results.violations.flatMap((violation) =>
    violation.nodes.map((node) => `${violation.id} (${violation.impact}): ${node.html.slice(0, 160)}`),
  );
}

/** How far a page reaches beyond its width, in pixels; 0 where nothing has to be scrolled sideways. */
export async function overflow(page: Page): Promise<number> {
  return page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth));
}

/** When a page first showed something, in milliseconds after it was asked for. */
export async function firstPaint(page: Page): Promise<number> {
  return page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN);
}
