import { isOperatorSite, type SessionState } from '../api/session';

export interface MenuGroup {
  name: string;
  items: { label: string; to: string }[];
}

/** Where a visitor can go. */
export function menu(session: SessionState): MenuGroup[] {
  if (isOperatorSite) return session.kind === 'operator' ? operator : [];
  const groups = [anyone];
  if (session.kind === 'user') {
    groups.push(consumer);
    groups.push(session.user.provider_id === undefined || session.user.provider_id === '' ? becoming : provider);
  }
  return groups;
}

const anyone: MenuGroup = {
  name: 'Marketplace',
  items: [
    { label: 'Models', to: '/' },
    { label: 'Playground', to: '/playground' },
    { label: 'Quick start', to: '/quick-start' },
    { label: 'Demand', to: '/demand' },
    { label: 'Service status', to: '/status' },
  ],
};

const consumer: MenuGroup = {
  name: 'My account',
  items: [
    { label: 'Overview', to: '/overview' },
    { label: 'Billing', to: '/billing' },
    { label: 'Credits', to: '/credits' },
    { label: 'Plan', to: '/plan' },
    { label: 'Keys', to: '/keys' },
    { label: 'Usage', to: '/usage' },
    { label: 'Requests', to: '/requests' },
    { label: 'Limits', to: '/limits' },
    { label: 'Webhooks', to: '/webhooks-of-account' },
    { label: 'Enterprise', to: '/enterprise' },
    { label: 'Settings', to: '/settings' },
  ],
};

const becoming: MenuGroup = { name: 'Provide', items: [{ label: 'Become a provider', to: '/provider/start' }] };

const provider: MenuGroup = {
  name: 'Computing Provider',
  items: [
    { label: 'Standing', to: '/provider' },
    { label: 'Earnings', to: '/provider/earnings' },
    { label: 'Traffic', to: '/provider/traffic' },
    { label: 'Models and agents', to: '/provider/models' },
    { label: 'External endpoints', to: '/provider/endpoints' },
    { label: 'Verification', to: '/provider/verification' },
    { label: 'Penalties', to: '/provider/penalties' },
    { label: 'Collateral', to: '/provider/collateral' },
    { label: 'Payouts', to: '/provider/payouts' },
    { label: 'Statements', to: '/provider/statements' },
    { label: 'Provider keys', to: '/provider/keys' },
    { label: 'Provider settings', to: '/provider/settings' },
  ],
};

const operator: MenuGroup[] = [
  {
    name: 'Money',
    items: [
      { label: 'The books', to: '/' },
      { label: 'Ledger', to: '/ledger' },
      { label: 'Settlement runs', to: '/settlement' },
      { label: 'Payouts', to: '/payouts' },
      { label: 'Held earnings', to: '/held-earnings' },
      { label: 'Collateral refunds', to: '/collateral-refunds' },
      { label: 'Chains and reserves', to: '/chains' },
      { label: 'Vendors', to: '/vendors' },
      { label: 'Plan pool', to: '/plan-pool' },
    ],
  },
  {
    name: 'Market',
    items: [
      { label: 'Catalog', to: '/catalog' },
      { label: 'Providers', to: '/providers' },
      { label: 'External endpoints', to: '/endpoints' },
      { label: 'Verification', to: '/verification' },
      { label: 'Penalties and appeals', to: '/penalties' },
    ],
  },
  {
    name: 'Accounts',
    items: [
      { label: 'Accounts', to: '/accounts' },
      { label: 'Enterprise contacts', to: '/contacts' },
      { label: 'Requests and routing', to: '/requests' },
    ],
  },
  {
    name: 'Service',
    items: [
      { label: 'Health', to: '/health' },
      { label: 'Audit log', to: '/acts' },
      { label: 'Operators', to: '/operators' },
    ],
  },
];
