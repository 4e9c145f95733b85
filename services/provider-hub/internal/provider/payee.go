package provider

import "time"

// Payee is what settlement asks of an account beside its addresses. Its times are by the
// store's clock, which no hub sets (store/functions/provider_payee_times.sql). Those of a
// proposal that took effect and is not yet written down are when it took effect.
type Payee struct {
	// AccountID is the consumer account of the account's user; empty for none.
	AccountID string
	// Since is when earnings last began to go to the beneficiary; zero without one.
	Since time.Time
	// AtSignUp reports that they have gone there since the account was opened.
	AtSignUp bool
	// BoundAt is when the wallet that owns the account was bound; zero without one.
	BoundAt time.Time
}
