// Package hold decides whether a request may run and sets its money aside.
//
// A hold begins open and is closed once (see State). It is a lease by the
// database's clock: the gateway renews it while the request runs, and one that
// nobody renews is over. What becomes of it then rests on the gateway's
// evidence; see package orphan. It pins the price version, and the amount is the most that the request
// can cost under it: prompt tokens with the caller's margin and every
// completion token that may come.
//
// Admission is committed in groups. Callers queue (at most Config.Queue of
// them; more are refused as unavailable); while a transaction is under way the
// next batch of at most Config.Batch collects, so that a busy moment costs few
// commits and a quiet one no waiting.
package hold

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
)

// BillingType is how a request is paid for.
type BillingType string

// The billing types.
const (
	PayAsYouGo BillingType = "payg"
	Free       BillingType = "free"
)

// Order asks for one request to be admitted.
type Order struct {
	Request ids.RequestID
	Key     ids.KeyID
	Model   string
	// PromptTokens is the estimate with the hold's margin.
	PromptTokens int64
	// MaxCompletionTokens is for all choices together.
	MaxCompletionTokens int64
	// Pinned says that the consumer chose the provider.
	Pinned bool
}

// Claim is an order with the price and the amount that admission pins.
type Claim struct {
	Order
	Class limit.Class
	// ZeroPriced models also count in the window they share.
	ZeroPriced bool
	Billing    BillingType
	Price      ids.PriceVersionID
	Rates      money.Rates
	Amount     money.NanoUSD
}

// Admission is what the caller of an admitted request is told.
type Admission struct {
	Account   ids.AccountID
	Billing   BillingType
	Price     ids.PriceVersionID
	Rates     money.Rates
	Held      money.NanoUSD
	Rate      limit.Rate
	ExpiresAt time.Time
}

// Outcome is how a claim was decided.
type Outcome string

// The outcomes.
const (
	Admitted        Outcome = "admitted"
	Repeated        Outcome = "repeated"
	InvalidKey      Outcome = "invalid_key"
	KeyRevoked      Outcome = "key_revoked"
	KeyExpired      Outcome = "key_expired"
	ModelNotAllowed Outcome = "model_not_allowed"
	AccountFrozen   Outcome = "account_frozen"
	RateLimited     Outcome = "rate_limited"
	TooManyOpen     Outcome = "too_many_open"
	CreditShort     Outcome = "credit_short"
	// Reused is a request id that was admitted for another key or model.
	Reused Outcome = "reused"
)

// Outcomes lists them all, for metrics and tests.
func Outcomes() []Outcome {
	return []Outcome{
		Admitted, Repeated, InvalidKey, KeyRevoked, KeyExpired, ModelNotAllowed,
		AccountFrozen, RateLimited, TooManyOpen, CreditShort, Reused,
	}
}

// Verdict answers a claim. Admission is complete when the outcome is Admitted
// or Repeated; of the others only RateLimited fills its Rate.
type Verdict struct {
	Outcome   Outcome
	Admission Admission
}
