// Package hold decides whether a request may run and sets its money aside.
//
// A hold begins open and is closed once (see State). It is a lease by the
// database's clock: the gateway renews it while the request runs, and one that
// nobody renews is over. What becomes of it then rests on the gateway's
// evidence; see package orphan. It pins the price version, and the amount is the
// most that the request can cost under it: prompt tokens with the caller's
// margin and every completion token that may come. It also pins whether the
// account's plan covers the request; then nothing is set aside (see package
// plan).
//
// A request takes a place in the concurrency of its key, and of the plan that
// covers it, until the gateway tells how it ended or its hold is closed,
// whichever comes first.
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
	"svc.internal/services/billing-ledger/internal/plan"
)

// BillingType is how a request is paid for.
type BillingType string

// The billing types.
const (
	PayAsYouGo BillingType = "payg"
	Free       BillingType = "free"
	// Plan is covered by the account's plan.
	Plan BillingType = "plan"
)

// AdmitRequest asks for one request to be admitted.
type AdmitRequest struct {
	Request ids.RequestID
	Key     ids.KeyID
	Model   string
	// PromptTokens is the estimate with the hold's margin; milliseconds of a
	// model priced per minute.
	PromptTokens int64
	// MaxCompletionTokens is for all choices together; images of a model priced
	// per image.
	MaxCompletionTokens int64
	// Pinned says that the consumer chose the provider.
	Pinned bool
	// Images is how many are asked for; of a model priced per image it is
	// MaxCompletionTokens.
	Images int32
}

// Reservation is an order with the price that admission pins.
type Reservation struct {
	AdmitRequest
	Class limit.Class
	// Tier is what plans cover by.
	Tier plan.Tier
	// ZeroPriced models also count in the window they share.
	ZeroPriced bool
	// Billing is how it is paid for unless a plan covers it.
	Billing BillingType
	Price   ids.PriceVersionID
	Rates   money.Rates
	// Amount is the most that the request can cost at list price, and what is
	// held of credit unless a plan covers it.
	Amount money.NanoUSD
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
	// Lease is how long a hold lasts that nobody renews.
	Lease time.Duration
}

// Outcome is how a reservation was decided.
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
	// LeftOften is a request of an account whose clients left too many at once.
	LeftOften   Outcome = "left_often"
	TooManyOpen Outcome = "too_many_open"
	CreditShort Outcome = "credit_short"
	// PlanRateLimited and PlanTooManyOpen are requests that the plan covers,
	// and has too many of.
	PlanRateLimited Outcome = "plan_rate_limited"
	PlanTooManyOpen Outcome = "plan_too_many_open"
	// PlanShort is a request that the plan has no room for, and neither has
	// the credit.
	PlanShort Outcome = "plan_short"
	// Reused is a request id that was admitted for another key or model.
	Reused Outcome = "reused"
)

// Outcomes lists them all, for metrics and tests.
func Outcomes() []Outcome {
	return []Outcome{
		Admitted, Repeated, InvalidKey, KeyRevoked, KeyExpired, ModelNotAllowed,
		AccountFrozen, RateLimited, LeftOften, TooManyOpen, CreditShort, PlanRateLimited, PlanTooManyOpen, PlanShort, Reused,
	}
}

// Decision answers a reservation. Admission is complete when the outcome is Admitted
// or Repeated; of the others only Rate counts, and only where the key is known.
type Decision struct {
	Outcome   Outcome
	Admission Admission
}
