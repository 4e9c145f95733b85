// The pages as they look once there is something on them: on a marketplace in which a week has passed. What holds of
// every page holds here, too.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { becomeOperator, signIn } from '../accounts';
import { adminUrl, baseUrl, launch, needed, open, visitor, type Visitor } from '../browser';
import { looks, painted } from '../looks';
import { consumerPages, operatorPages, providerPages, publicPages } from '../pages';
import { stage } from '../town/stage';
import { seed, type Market } from './market';

let started: Browser;
let market: Market;
beforeAll(async () => {
  started = await launch();
  market = await seed();
});
afterAll(async () => started.close());

const browser = () => started;

const become = async (who: Visitor, name: string) =>
  becomeOperator(who, { name: `${name}.admin`, invitation: await stage<string>(`invite/${name}.admin`) });

looks('lively anyone', publicPages, { browser, prepare: async () => ({ model: needed('SVC_MODEL') }) });
looks('lively consumer', consumerPages, {
  browser,
  prepare: async (who) => {
    await signIn(who, market.consumer);
    return { request: market.consumer.request };
  },
});
looks('lively provider', providerPages, {
  browser,
  prepare: async (who) => {
    await signIn(who, market.provider);
    return {};
  },
});
looks('lively operator', operatorPages, {
  browser,
  site: adminUrl,
  prepare: async (who) => {
    await become(who, 'pictures');
    return {
      model: needed('SVC_MODEL'),
      account: market.consumer.accountId,
      provider: market.provider.id,
      request: market.consumer.request,
    };
  },
});

/** The folder for the pictures of READMEs; empty for none. */
const folder = process.env.PICTURES ?? '';
const maxPicture = 120 * 1024;

describe.skipIf(folder === '')('pictures of READMEs', () => {
  const visits = new Map<string, Visitor>();
  const as = async (role: 'anyone' | 'consumer' | 'provider' | 'operator') => {
    const known = visits.get(role);
    if (known !== undefined) return known;
    const who = await visitor(browser(), role === 'operator' ? adminUrl : baseUrl);
    if (role === 'operator') await become(who, 'ines');
    else if (role !== 'anyone') await signIn(who, market[role]);
    visits.set(role, who);
    return who;
  };
  afterAll(async () => Promise.all([...visits.values()].map(async (who) => who.context.close())));

  it.each([
    ['models', 'anyone', '/?category=llm'],
    ['usage', 'consumer', '/usage'],
    ['receipt', 'consumer', '/requests/:request'],
    ['playground', 'consumer', '/playground'],
    ['standing', 'provider', '/provider'],
    ['books', 'operator', '/'],
    ['statements', 'provider', '/provider/statements'],
  ] as const)('%s', async (name, role, path) => {
    const who = await as(role);
    await who.page.setViewportSize({ width: 1280, height: 960 });
    for (const scheme of ['light', 'dark'] as const) {
      await who.page.emulateMedia({ colorScheme: scheme });
      await open(who, path.replace(':request', market.consumer.request));
      if (name === 'playground') await converse(who);
      await keep(who, name, scheme);
    }
  });

  it('overview on a telephone', async () => {
    const who = await as('consumer');
    await who.page.setViewportSize({ width: 360, height: 740 });
    for (const scheme of ['light', 'dark'] as const) {
      await who.page.emulateMedia({ colorScheme: scheme });
      await open(who, '/overview');
      await keep(who, 'overview-narrow', scheme);
    }
  });
});

/** Keeps a picture of what is to be seen, as WebP. The page was opened in its scheme of colours. */
async function keep({ page, context }: Visitor, name: string, scheme: 'light' | 'dark') {
  await painted(page, scheme);
  const session = await context.newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 82 });
  await session.detach();
  const bytes = Buffer.from(data, 'base64');
  expect(bytes.length, 'bytes of the picture').toBeLessThan(maxPicture);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}-${scheme}.webp`), bytes);
}

/** Asks a model in the playground with the consumer's key, and waits for the answer. */
async function converse({ page }: Visitor) {
  await page.getByLabel('Consumer key', { exact: true }).fill(market.consumer.key);
  await page.getByRole('button', { name: 'Use this key', exact: true }).click();
  await page.getByLabel('Message').fill('What is still open after the meeting of Tuesday?');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page
    .getByRole('log', { name: 'Conversation' })
    .getByText(/tokens out/)
    .waitFor();
}
