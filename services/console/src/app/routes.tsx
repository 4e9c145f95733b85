// The pages by their addresses. Each page is a file of its own in the bundle, so that a visitor loads only
// what it looks at.

import { createBrowserRouter, type RouteObject } from 'react-router';

import { isOperatorSite } from '../api/session';
import { Broken, NotFound } from './broken';
import { ProviderOnly, SignedIn } from './guard';
import { Shell } from './shell';

type PageModule = { default: () => React.ReactNode };

function page(path: string, load: () => Promise<PageModule>): RouteObject {
  return { path, lazy: async () => ({ Component: (await load()).default }) };
}

const anyone: RouteObject[] = [
  page('/', () => import('../pages/anyone/models')),
  page('/models/*', () => import('../pages/anyone/model')),
  page('/playground', () => import('../pages/anyone/playground')),
  page('/quick-start', () => import('../pages/anyone/quick-start')),
  page('/demand', () => import('../pages/anyone/demand')),
  page('/status', () => import('../pages/anyone/status')),
  page('/sign-in', () => import('../pages/anyone/sign-in')),
  page('/sign-up', () => import('../pages/anyone/sign-up')),
  page('/password', () => import('../pages/anyone/password')),
  page('/confirm', () => import('../pages/anyone/confirm')),
];

const consumer: RouteObject[] = [
  page('/overview', () => import('../pages/consumer/overview')),
  page('/billing', () => import('../pages/consumer/billing')),
  page('/credits', () => import('../pages/consumer/credits')),
  page('/plan', () => import('../pages/consumer/plan')),
  page('/keys', () => import('../pages/consumer/keys')),
  page('/usage', () => import('../pages/consumer/usage')),
  page('/requests', () => import('../pages/consumer/requests')),
  page('/requests/:id', () => import('../pages/consumer/receipt')),
  page('/limits', () => import('../pages/consumer/limits')),
  page('/webhooks-of-account', () => import('../pages/consumer/webhooks')),
  page('/enterprise', () => import('../pages/consumer/enterprise')),
  page('/settings', () => import('../pages/consumer/settings')),
  page('/provider/start', () => import('../pages/provider/start')),
];

const provider: RouteObject[] = [
  page('/provider', () => import('../pages/provider/standing')),
  page('/provider/earnings', () => import('../pages/provider/earnings')),
  page('/provider/traffic', () => import('../pages/provider/traffic')),
  page('/provider/models', () => import('../pages/provider/models')),
  page('/provider/endpoints', () => import('../pages/provider/endpoints')),
  page('/provider/verification', () => import('../pages/provider/verification')),
  page('/provider/penalties', () => import('../pages/provider/penalties')),
  page('/provider/collateral', () => import('../pages/provider/collateral')),
  page('/provider/payouts', () => import('../pages/provider/payouts')),
  page('/provider/statements', () => import('../pages/provider/statements')),
  page('/provider/keys', () => import('../pages/provider/keys')),
  page('/provider/settings', () => import('../pages/provider/settings')),
];

const operator: RouteObject[] = [
  page('/', () => import('../pages/operator/trial-balance')),
  page('/ledger', () => import('../pages/operator/ledger')),
  page('/settlement', () => import('../pages/operator/settlement')),
  page('/payouts', () => import('../pages/operator/payouts')),
  page('/held-earnings', () => import('../pages/operator/held-earnings')),
  page('/collateral-refunds', () => import('../pages/operator/collateral-refunds')),
  page('/chains', () => import('../pages/operator/chains')),
  page('/vendors', () => import('../pages/operator/vendors')),
  page('/plan-pool', () => import('../pages/operator/plan-pool')),
  page('/catalog', () => import('../pages/operator/catalog')),
  page('/catalog/*', () => import('../pages/operator/model')),
  page('/providers', () => import('../pages/operator/providers')),
  page('/providers/:id', () => import('../pages/operator/provider')),
  page('/endpoints', () => import('../pages/operator/endpoints')),
  page('/verification', () => import('../pages/operator/verification')),
  page('/penalties', () => import('../pages/operator/penalties')),
  page('/accounts', () => import('../pages/operator/accounts')),
  page('/accounts/:id', () => import('../pages/operator/account')),
  page('/contacts', () => import('../pages/operator/contacts')),
  page('/requests', () => import('../pages/operator/requests')),
  page('/health', () => import('../pages/operator/health')),
  page('/acts', () => import('../pages/operator/acts')),
  page('/operators', () => import('../pages/operator/operators')),
];

const publicSite: RouteObject[] = [
  ...anyone,
  { element: <SignedIn />, children: [...consumer, { element: <ProviderOnly />, children: provider }] },
];

const operatorSite: RouteObject[] = [
  page('/sign-in', () => import('../pages/operator/sign-in')),
  page('/accept', () => import('../pages/operator/accept')),
  { element: <SignedIn />, children: operator },
];

// The page also answers at the root of its site.
if (window.location.pathname === '/') window.history.replaceState(null, '', '/app/');

export const router = createBrowserRouter(
  [
    {
      element: <Shell />,
      errorElement: <Broken />,
      children: [...(isOperatorSite ? operatorSite : publicSite), { path: '*', element: <NotFound /> }],
    },
  ],
  { basename: '/app' },
);
