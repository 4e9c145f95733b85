// When the payment of an invoice needs a second operator, as billing-ledger decides it (internal/payable).

import type { Schemas } from '../../api/client';
import { nano } from '../../format/amounts';
import { dollars } from '../../format/money';

/** What of an earlier payment counts. */
type Paid = Pick<Schemas['VendorPayment'], 'amount_usd_str' | 'counted_usd_str' | 'correction_usd_str' | 'paid_at'>;

/** Dollars as a form has them: `1200.50`. */
export function plain(usd: string): string {
  return dollars(usd).replace(/[$,]/g, '');
}

const usdNano = 1_000_000_000n;
/** What one operator pays a vendor within 24 hours at most, and the least correction that needs two. */
const one = 10_000n * usdNano;
const correction = 100n * usdNano;

/**
 * Reports whether an invoice needs a second operator, as billing-ledger decides it. What was paid within 24
 * hours counts as one with it; of that the page knows the newest payment alone, so `false` may still be wrong.
 */
export function needsSecond(amount: string, counted: string, last: Paid | null | undefined, now: number): boolean {
  const paid = nano(amount);
  const count = counted === '' ? paid : nano(counted);
  if (paid === null || count === null) return false;
  const recent = last?.paid_at != null && now - Date.parse(last.paid_at) < 86_400_000 ? last : null;
  const amounts = paid + (recent === null ? 0n : (nano(recent.amount_usd_str) ?? 0n));
  const counts = count + (recent === null ? 0n : (nano(recent.counted_usd_str) ?? 0n));
  const corrected = absolute(paid - count) + (recent === null ? 0n : absolute(nano(recent.correction_usd_str) ?? 0n));
  const allowed = counts / 10n > correction ? counts / 10n : correction;
  return amounts > one || counts > one || corrected > allowed;
}

function absolute(n: bigint): bigint {
  return n < 0n ? -n : n;
}
