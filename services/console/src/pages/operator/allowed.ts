// The kind of each act of operators, and who may do it, as the gateway has it
// (edge-gateway/internal/operator/roles.go). A test compares the two.

import type { Permission, Role } from './role';

/** The kinds of acts that each role may do. Every role may read. */
export const may: Record<Role, readonly Permission[]> = {
  viewer: [],
  support: ['care', 'refund'],
  treasurer: ['refund', 'pay', 'approve'],
  admin: ['care', 'refund', 'pay', 'approve', 'run', 'staff'],
};

/** The kind of each act, by its route. */
export const needs = {
  'POST /api/v1/admin/operators': 'staff',
  'PATCH /api/v1/admin/operators/{operator_id}': 'staff',
  'POST /api/v1/admin/operators/{operator_id}/reset': 'staff',
  'POST /api/v1/admin/operators/{operator_id}/end': 'staff',

  'POST /api/v1/admin/accounts': 'run',
  'POST /api/v1/admin/accounts/{account_id}/credit': 'care',
  'PUT /api/v1/admin/accounts/{account_id}/limits': 'care',
  'PUT /api/v1/admin/accounts/{account_id}/plan': 'care',
  'PUT /api/v1/admin/accounts/{account_id}/state': 'care',
  'POST /api/v1/admin/accounts/{account_id}/freezes': 'care',
  'POST /api/v1/admin/accounts/{account_id}/freezes/lift': 'care',
  'POST /api/v1/admin/enterprise-contacts/{contact_id}/answer': 'care',
  'DELETE /api/v1/admin/keys/{key_id}': 'care',
  'POST /api/v1/admin/accounts/{account_id}/keys': 'run',
  'POST /api/v1/admin/accounts/{account_id}/refunds': 'refund',
  'POST /api/v1/admin/accounts/{account_id}/checkouts/{checkout_id}/refund': 'refund',
  'POST /api/v1/admin/plan-invoices/{invoice_id}/refund': 'refund',
  'PUT /api/v1/admin/accounts/{account_id}/terms': 'pay',

  'POST /api/v1/admin/held-earnings/release': 'pay',
  'POST /api/v1/admin/held-earnings/forfeit': 'pay',
  'POST /api/v1/admin/batches/{day}/allow': 'pay',
  'POST /api/v1/admin/earnings/blocks/{provider_id}/lift': 'pay',
  'POST /api/v1/admin/payouts/{payout_id}/approve': 'approve',
  'POST /api/v1/admin/payouts/{payout_id}/cancel': 'pay',
  'POST /api/v1/admin/payouts/{payout_id}/cancel-on-chain': 'pay',
  'POST /api/v1/admin/vendors/{vendor_id}/payments': 'approve',
  'POST /api/v1/admin/penalties/{penalty_id}/resolve': 'pay',
  'POST /api/v1/admin/collateral/refunds/{refund_id}/paid': 'pay',
  'POST /api/v1/admin/transfers/match': 'pay',
  'POST /api/v1/admin/transfers/return': 'pay',
  'POST /api/v1/admin/chains/{chain_id}/halt': 'run',
  'POST /api/v1/admin/chains/{chain_id}/adoption': 'run',
  'POST /api/v1/admin/chains/{chain_id}/calls/cancel': 'run',
  'POST /api/v1/admin/sending-halts/{chain_id}/lift': 'run',

  'POST /api/v1/admin/providers': 'run',
  'POST /api/v1/admin/providers/{provider_id}/keys': 'run',
  'POST /api/v1/admin/providers/{provider_id}/qualification': 'run',
  'POST /api/v1/admin/providers/{provider_id}/reference': 'run',
  'POST /api/v1/admin/providers/{provider_id}/status': 'run',
  'POST /api/v1/admin/providers/{provider_id}/unbind': 'run',
  'DELETE /api/v1/admin/provider-keys/{key_id}': 'run',
  'POST /api/v1/admin/external-endpoints/{endpoint_id}/state': 'run',
  'POST /api/v1/admin/vendors': 'run',
  'PATCH /api/v1/admin/vendors/{provider_id}': 'run',
  'PUT /api/v1/admin/models/{model_id}': 'run',
  'POST /api/v1/admin/models/{model_id}/changes': 'run',
  'DELETE /api/v1/admin/models/{model_id}/changes/{change_id}': 'run',
  'PUT /api/v1/admin/model-files/{model_id}': 'run',
  'POST /api/v1/admin/warmups': 'run',

  'POST /api/v1/admin/verification/calibrations': 'run',
  'POST /api/v1/admin/verification/benchmarks': 'run',
  'POST /api/v1/admin/verification/effects/{effect_id}/retry': 'run',
  'POST /api/v1/admin/verification/penalties': 'run',
  'POST /api/v1/admin/verification/verdicts/{verdict_id}/approve': 'run',
  'POST /api/v1/admin/verification/void': 'run',
} as const satisfies Record<string, Permission>;

/** An act, by its route. */
export type OperatorAct = keyof typeof needs;

/** Reports whether a role may do an act. A role that is not known may do none. */
export function allowed(role: string, act: OperatorAct): boolean {
  const permissions: readonly Permission[] = isKnown(role) ? may[role] : [];
  return permissions.includes(needs[act]);
}

function isKnown(role: string): role is Role {
  return Object.hasOwn(may, role);
}
