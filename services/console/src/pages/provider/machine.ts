// The status machine of a provider, as data for the drawing and for its table.

interface Place {
  name: string;
  label: string;
  x: number;
  y: number;
  /** What one may do there. */
  meaning: string;
}

/** The size of a box of the drawing. */
export const boxWidth = 128;
export const boxHeight = 40;

const left = 26;
const right = 218;

export const places: Place[] = [
  {
    name: 'pending',
    label: 'Pending',
    x: left,
    y: 10,
    meaning: 'Connects. Earns once collateral, machine and benchmark hold.',
  },
  {
    name: 'under_review',
    label: 'Under review',
    x: right,
    y: 10,
    meaning: 'Connects. An operator looks at the application.',
  },
  { name: 'approved', label: 'Approved', x: right, y: 90, meaning: 'Connects. Collateral is due.' },
  { name: 'activating', label: 'Activating', x: right, y: 172, meaning: 'Connects. Machine or benchmark is due.' },
  {
    name: 'active',
    label: 'Active',
    x: left,
    y: 246,
    meaning: 'Serves and earns. The first 24 hours are a probation.',
  },
  {
    name: 'offline',
    label: 'Offline',
    x: left,
    y: 324,
    meaning: 'Active, and no machine is connected: nothing is earned.',
  },
  { name: 'suspended', label: 'Suspended', x: left, y: 408, meaning: 'Does not connect, until the cause ends.' },
  {
    name: 'rejected',
    label: 'Rejected',
    x: right,
    y: 408,
    meaning: 'Does not connect. Another review may be asked for after 7 days.',
  },
];

export interface Change {
  n: number;
  from: string[];
  to: string;
  what: string;
  /** The line, and where its number stands. */
  path: string;
  at: [number, number];
  dashed?: boolean;
}

/** Every change that there is. `any` stands for every status. */
export const changes: Change[] = [
  {
    n: 1,
    from: ['pending'],
    to: 'active',
    what: 'Collateral, machine and benchmark hold. It follows by itself within a minute.',
    path: 'M66 50 V242',
    at: [66, 144],
  },
  {
    n: 2,
    from: ['active', 'offline'],
    to: 'pending',
    what: 'The benchmark expired, the probation was failed, or collateral is confirmed no longer.',
    path: 'M114 246 V54',
    at: [114, 144],
  },
  {
    n: 3,
    from: ['pending'],
    to: 'under_review',
    what: 'You ask for a review. Nobody has to: it is another way to the same end.',
    path: 'M154 22 H214',
    at: [186, 22],
  },
  {
    n: 4,
    from: ['under_review'],
    to: 'approved',
    what: 'An operator approves the application.',
    path: 'M282 50 V86',
    at: [282, 66],
  },
  {
    n: 5,
    from: ['approved'],
    to: 'activating',
    what: 'Collateral is confirmed.',
    path: 'M282 130 V168',
    at: [282, 147],
  },
  {
    n: 6,
    from: ['activating'],
    to: 'active',
    what: 'Machine and benchmark hold.',
    path: 'M282 212 V266 H158',
    at: [236, 266],
  },
  {
    n: 7,
    from: ['approved', 'activating'],
    to: 'pending',
    what: 'What was confirmed was withdrawn.',
    path: 'M218 110 H186 M218 192 H186 V38 H158',
    at: [186, 150],
  },
  {
    n: 8,
    from: ['active'],
    to: 'offline',
    what: 'The last machine disconnects. The next connection brings you back.',
    path: 'M90 286 V320',
    at: [90, 301],
  },
  {
    n: 9,
    from: ['offline'],
    to: 'active',
    what: 'A machine connects, or an external endpoint is healthy.',
    path: 'M130 324 V290',
    at: [130, 308],
  },
  {
    n: 10,
    from: ['any'],
    to: 'suspended',
    what: 'You ask for your collateral back, it leaves the chain, a card payment was reversed, or an operator suspends the account.',
    path: 'M182 430 H158',
    at: [168, 452],
    dashed: true,
  },
  {
    n: 11,
    from: ['suspended'],
    to: 'pending',
    what: 'The last cause ends. A new benchmark is needed.',
    path: 'M26 428 H10 V30 H22',
    at: [10, 230],
  },
  {
    n: 12,
    from: ['under_review'],
    to: 'rejected',
    what: 'An operator rejects the application.',
    path: 'M346 40 H354 V422 H350',
    at: [354, 246],
  },
  {
    n: 13,
    from: ['any'],
    to: 'rejected',
    what: 'A penalty removes you from the network.',
    path: 'M190 430 H214',
    at: [204, 452],
    dashed: true,
  },
  {
    n: 14,
    from: ['rejected'],
    to: 'under_review',
    what: 'You ask for another review, 7 days later at the earliest.',
    path: 'M346 438 H368 V20 H350',
    at: [368, 300],
  },
  {
    n: 15,
    from: ['rejected'],
    to: 'pending',
    what: 'The penalty that removed you is reversed.',
    path: 'M240 408 V370 H186 V38 H158',
    at: [214, 370],
  },
];

/** Whether a change can happen to a provider that is shown in a status. */
export function leads(change: Change, status: string): boolean {
  return change.from.includes(status) || (change.from.includes('any') && change.to !== status);
}

export function labelOf(status: string): string {
  if (status === 'any') return 'Every status';
  return places.find((place) => place.name === status)?.label ?? status;
}
