// What each role of operators may do, as the gateway decides it (edge-gateway/internal/operator/roles.go).
// The gateway decides at each call; a page only says beforehand what it would answer.

import { useSession } from '../../app/session';
import { may } from './allowed';

/** A kind of act that some roles may do. */
export type Permission = 'care' | 'refund' | 'pay' | 'approve' | 'run' | 'staff';

export const roles = ['viewer', 'support', 'treasurer', 'admin'] as const;
export type Role = (typeof roles)[number];

/** What a role is for, in a sentence. */
export const purposes: Record<Role, string> = {
  viewer: 'Reads every page and changes nothing.',
  support: 'Helps accounts: goodwill, plans, limits, freezes, revoked keys and refunds.',
  treasurer: 'Moves money: settlement, payouts, refunds, deposits, vendors and terms.',
  admin: 'Does all of that, and runs providers, models, verification, chains and operators.',
};

export function isRole(text: string): text is Role {
  return roles.some((role) => role === text);
}

/** Why the operator's role does not allow a kind of act; empty where it does. */
export function useRefusal(permission: Permission): string {
  const session = useSession();
  if (session.kind !== 'operator') return 'Sign in first.';
  const { role } = session.operator;
  if (isRole(role) && may[role].includes(permission)) return '';
  const allowed = roles.filter((one) => may[one].includes(permission));
  return `Your role is ${role}. Only ${allowed.map(withArticle).join(' or ')} may do this.`;
}

/** The operator's own name as acts and payments have it, such as `alice@0190…`; empty where nobody is signed in. */
export function useOwnName(): string {
  const session = useSession();
  return session.kind === 'operator' ? `${session.operator.name}@${session.operator.operator_id}` : '';
}

function withArticle(role: Role): string {
  return role === 'admin' ? 'an admin' : `a ${role}`;
}
