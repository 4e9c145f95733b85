// Package hold decides whether a request may run, and sets its money aside.
//
// A hold begins open and is closed once (see State). It pins the price version, the rates
// and the unit of the model. Its amount is the most that the request can cost under them:
// prompt tokens with the caller's margin, and every completion token that may come. It
// also pins whether the account's plan covers the request; nothing is set aside then (see
// package plan).
//
// The unit is a token, an image or a millisecond of audio, by the category of the model.
// An image model counts images as its completion and has no prompt. An audio model counts
// milliseconds as its prompt and has no completion.
//
// A hold is a lease by the database's clock, of 60 s by default (Config.HoldLease). The
// gateway renews the lease of a request that runs for longer than a quarter of it, until
// the hold is an hour old (Config.MaxHold). A hold whose lease is over and of which
// nothing is known to have been served expires. A hold with evidence is reviewed; see
// package orphan.
//
// An admitted request takes a place in the concurrency of its account, over all of the
// account's keys, and in the concurrency of the plan that covers it. It gives the places
// back when the gateway reports its end or when its hold is closed, whichever comes
// first. It does not keep them until its usage is settled.
//
// A refused request counts against nothing, neither rate nor concurrency. An admit
// request that repeats an admitted request id gets the first decision, even when that
// hold is closed. A model that costs nothing counts in its category, by key, and in one
// rate that all such models and all keys of the account share. A refusal of a valid key
// says what its rate has left.
//
// Plain requests of a busy account are admitted from memory where nothing puts them in doubt, and
// their holds are written soon after (package slice). All other requests take the exact
// path, on which the store decides.
//
// The exact path commits in groups, by several writers; the calls of one key have one
// writer. Each writer has its share of Config.Queue for callers that wait, and a caller
// beyond its share is refused as unavailable. While one transaction of a writer is under
// way, its next batch of at most Config.Batch collects. So a busy moment costs few
// commits, and a quiet moment no waiting. When a caller leaves while its batch commits,
// or the connection is lost then, the hold may exist. The gateway's report releases such
// a hold, or the hold expires.
package hold

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
)

// AdmitRequest asks to admit one request.
type AdmitRequest struct {
	Request ids.RequestID
	Key     ids.KeyID
	Model   string
	// PromptTokens is the estimate with the hold's margin; milliseconds of audio for a
	// model that is priced by the minute.
	PromptTokens int64
	// MaxCompletionTokens is the sum over all choices; images for a model that is priced
	// by the image.
	MaxCompletionTokens int64
	// Pinned reports whether the consumer chose the provider.
	Pinned bool
	// Images is the number of images asked for. For a model that is priced by the image
	// it equals MaxCompletionTokens.
	Images int32
}

// Reservation is an admit request with the price that admission pins.
type Reservation struct {
	AdmitRequest
	Class limit.Class
	// Tier decides which plans cover the model.
	Tier plan.Tier
	// ZeroPriced models count in one more rate, which all of them share.
	ZeroPriced bool
	// Gateway reports whether the model is a gateway model, which vendors alone serve.
	Gateway bool
	// Billing is how the request is paid for unless a plan covers it.
	Billing BillingType
	Price   ids.PriceVersionID
	Rates   money.Rates
	// Amount is the most that the request can cost at list price. It is held of the
	// credit unless a plan covers the request.
	Amount money.NanoUSD
}

// Admission is the answer to the caller of an admitted request.
type Admission struct {
	Account   ids.AccountID
	Billing   BillingType
	Price     ids.PriceVersionID
	Rates     money.Rates
	Held      money.NanoUSD
	Rate      limit.Rate
	ExpiresAt time.Time
	// Lease is the time after which a hold is over that nobody renews.
	Lease time.Duration
	// Discount lowers what the request is charged, and Priority lets it wait ahead of others for
	// a provider.
	Discount money.Discount
	Priority bool
	// Pin is what the hold will say when it is written; nil when it is written already.
	Pin *Pin
}

// Pin returns what the hold of an admitted reservation says.
func (r Reservation) Pin(a Admission, at time.Time, epoch int64) Pin {
	return Pin{
		Request: r.Request, Account: a.Account, Key: r.Key, Model: r.Model, Billing: a.Billing, Amount: a.Held,
		Prompt: r.PromptTokens, MaxCompletion: r.MaxCompletionTokens, Images: r.Images, Pinned: r.Pinned, Price: a.Price,
		Rates: a.Rates, RateLimit: a.Rate.Limit, RateRemaining: a.Rate.Remaining, RateReset: a.Rate.Reset,
		AdmittedAt: at.Truncate(time.Microsecond), Epoch: epoch,
	}
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
	// LeftOften refuses a request of an account whose clients left too many requests at
	// once.
	LeftOften   Outcome = "left_often"
	TooManyOpen Outcome = "too_many_open"
	CreditShort Outcome = "credit_short"
	// CategoryTooManyOpen and CategoryTokensShort refuse a request for which the places or the
	// tokens of the day, by the account's terms for a category, have no room.
	CategoryTooManyOpen Outcome = "category_too_many_open"
	CategoryTokensShort Outcome = "category_tokens_short"
	// KeyBudgetShort, DayCapShort and MonthCapShort refuse a request for which the budget of
	// the key or a cap of the account has no room.
	KeyBudgetShort Outcome = "key_budget_short"
	DayCapShort    Outcome = "day_cap_short"
	MonthCapShort  Outcome = "month_cap_short"
	// PlanRateLimited and PlanTooManyOpen refuse a request that the plan covers, because
	// the plan's rate or concurrency is used up.
	PlanRateLimited Outcome = "plan_rate_limited"
	PlanTooManyOpen Outcome = "plan_too_many_open"
	// PlanShort refuses a request for which neither the plan nor the credit has room.
	PlanShort Outcome = "plan_short"
	// Reused refuses a request id that was admitted for another key or model.
	Reused Outcome = "reused"
)

// Outcomes returns every outcome, for metrics and tests.
func Outcomes() []Outcome {
	return []Outcome{
		Admitted, Repeated, InvalidKey, KeyRevoked, KeyExpired, ModelNotAllowed,
		AccountFrozen, RateLimited, LeftOften, TooManyOpen, KeyBudgetShort, DayCapShort, MonthCapShort, CreditShort,
		PlanRateLimited, PlanTooManyOpen, PlanShort, Reused, CategoryTooManyOpen, CategoryTokensShort,
	}
}

// Decision answers a reservation. Admission is complete when the outcome is Admitted or
// Repeated. Of any other outcome only Rate counts, and only where the key is known.
type Decision struct {
	Outcome   Outcome
	Admission Admission
	// ResetsAt is when the budget or the cap begins a new window that has no room; zero for
	// one that never does.
	ResetsAt time.Time
	// FrozenBecause says in words why the account is frozen.
	FrozenBecause []string
}
