import { describe, expect, it } from 'vitest';

import table from '../../../../edge-gateway/internal/operator/roles.go?raw';

import { allowed, may, needs } from './allowed';

/** What needs no role, or changes nothing. */
const free = ['SignIn', 'SignOut', 'MakeFirst', 'Read'];

describe('allowed', () => {
  it('has each act that the gateway has, and of the same kind', () => {
    const routes = [...table.matchAll(/"([A-Z]+ \/api\/v1\/admin\/[^"]+)":\s+(\w+),/g)]
      .map(([, route, kind]) => [route, kind] as const)
      .filter(([, kind]) => !free.includes(kind ?? ''))
      .map(([route, kind]) => [route, kind?.toLowerCase()]);
    expect(routes.length).toBeGreaterThan(40);
    expect({ ...needs }).toEqual(Object.fromEntries(routes));
  });

  it('gives each role what the gateway gives it', () => {
    const roles = [...table.matchAll(/^\t(Viewer|Support|Treasurer|Admin):\s+\{([^}]*)\},/gm)].map(
      ([, role, kinds]) => [
        role?.toLowerCase(),
        (kinds ?? '')
          .split(',')
          .map((kind) => kind.trim())
          .filter((kind) => !free.includes(kind))
          .map((kind) => kind.toLowerCase()),
      ],
    );
    expect(may).toEqual(Object.fromEntries(roles));
  });

  it('lets an admin change a model, and nobody else', () => {
    const act = 'PUT /api/v1/admin/models/{model_id}';
    expect(['viewer', 'support', 'treasurer', 'admin'].map((role) => allowed(role, act))).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });

  it('lets a role that it does not know do nothing', () => {
    expect(allowed('owner', 'POST /api/v1/admin/warmups')).toBe(false);
    expect(allowed('constructor', 'POST /api/v1/admin/warmups')).toBe(false);
  });
});
