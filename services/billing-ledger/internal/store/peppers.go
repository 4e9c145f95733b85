package store

import "svc.internal/pkg/pg/peppers"

// Peppers are the peppers of consumer keys and of the secrets of operators' codes. A hash of a key
// that is revoked or has expired counts no more, and neither does an old text after its overlap.
var Peppers = peppers.Registry{
	Service: "billing-ledger",
	InUse: `SELECT pepper, count(*)::bigint AS hashes FROM (
			SELECT pepper FROM consumer_key WHERE state = 'active' AND (expires_at IS NULL OR expires_at > now())
			UNION ALL SELECT old_pepper FROM consumer_key
				WHERE state = 'active' AND (expires_at IS NULL OR expires_at > now()) AND old_until > now()
			UNION ALL SELECT totp_pepper FROM operator WHERE totp_sealed IS NOT NULL) u
		GROUP BY pepper`,
}
