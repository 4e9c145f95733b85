package store

import "svc.internal/pkg/pg/peppers"

// Peppers are the peppers of consumer keys and of the secrets of operators' codes. A hash of a key
// that is revoked counts no more, and neither does an old text after its overlap. A key that has expired
// counts, because its owner may give it a later end.
var Peppers = peppers.Registry{
	Service: "billing-ledger",
	InUse: `SELECT pepper, count(*)::bigint AS hashes FROM (
			SELECT pepper FROM consumer_key WHERE state = 'active'
			UNION ALL SELECT old_pepper FROM consumer_key
				WHERE state = 'active' AND old_until > now()
			UNION ALL SELECT totp_pepper FROM operator WHERE totp_sealed IS NOT NULL) u
		GROUP BY pepper`,
}
