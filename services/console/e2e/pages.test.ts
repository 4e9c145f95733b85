// Every page, as every kind of visitor sees it first, on a marketplace that has just begun.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';

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
import { adminUrl, launch, needed, type Visitor } from './browser';
import { looks, paints } from './looks';
import { consumerPages, operatorDoors, operatorPages, providerPages, publicPages } from './pages';

let started: Browser;
beforeAll(async () => {
  started = await launch();
});
const browser = () => started;

afterAll(async () => {
  await started.close();
  paints.sort((a, b) => a - b);
  const at = (share: number) => Math.round(paints[Math.floor(share * (paints.length - 1))] ?? NaN);
  console.log(`first paint of ${paints.length} pages, in ms: median ${at(0.5)}, slowest ${at(1)}`);
});

async function enter(who: Visitor, user: Promise<TestUser>): Promise<Record<string, string>> {
  await signIn(who, await user);
  return {};
}

looks('anyone', publicPages, { browser, prepare: async () => ({ model: needed('SVC_MODEL') }) });
looks('new consumer', ['/overview', '/billing', '/usage', '/requests', '/keys'], {
  browser,
  prepare: async (who) => enter(who, signUp()),
});
looks('consumer', consumerPages, {
  browser,
  prepare: async (who) => {
    const user = await signUpBusy();
    await signIn(who, user);
    return { request: user.request };
  },
});
looks('provider', providerPages, { browser, prepare: async (who) => enter(who, signUpProvider()) });
looks('anyone at the operators', operatorDoors, { browser, prepare: async () => ({}), site: adminUrl });
looks('operator', operatorPages, {
  browser,
  site: adminUrl,
  prepare: async (who) => {
    const user = await signUpBusy();
    await becomeOperator(who, invited('pages'));
    const { list } = await asMachine<{ list: { provider_id: string }[] }>('GET', 'providers');
    return {
      model: needed('SVC_MODEL'),
      account: user.accountId,
      provider: list[0]?.provider_id ?? '',
      request: user.request,
    };
  },
});
