// The pages by who sees them, with the addresses that a test opens. What begins with a colon stands for an id.

export const publicPages = [
  '/',
  '/models/:model',
  '/playground',
  '/quick-start',
  '/demand',
  '/status',
  '/sign-in',
  '/sign-up',
  '/password',
  '/confirm',
  '/no-such-page',
];

export const consumerPages = [
  '/overview',
  '/billing',
  '/billing?documents=receipts',
  '/credits',
  '/credits?by=crypto',
  '/plan',
  '/keys',
  '/usage',
  '/usage?by=model',
  '/requests',
  '/requests/:request',
  '/limits',
  '/webhooks-of-account',
  '/enterprise',
  '/settings',
  '/provider/start',
];

export const providerPages = [
  '/provider',
  '/provider/earnings',
  '/provider/traffic',
  '/provider/models',
  '/provider/endpoints',
  '/provider/verification',
  '/provider/penalties',
  '/provider/collateral',
  '/provider/payouts',
  '/provider/statements',
  '/provider/keys',
  '/provider/settings',
];

/** The pages of the operators' site that open without signing in. */
export const operatorDoors = ['/sign-in', '/accept'];

export const operatorPages = [
  '/',
  '/ledger',
  '/settlement',
  '/payouts',
  '/held-earnings',
  '/collateral-refunds',
  '/chains',
  '/vendors',
  '/plan-pool',
  '/catalog',
  '/catalog/:model',
  '/providers',
  '/providers/:provider',
  '/endpoints',
  '/verification',
  '/verification?tab=verdicts',
  '/verification?tab=calibrations',
  '/verification?tab=effects',
  '/penalties',
  '/accounts',
  '/accounts/:account',
  '/contacts',
  '/requests',
  '/requests?id=:request',
  '/health',
  '/acts',
  '/operators',
];
