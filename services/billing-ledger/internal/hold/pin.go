package hold

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
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

// Pin is all that a hold says when it begins. A hold can be written from its pin at any time, and
// by any replica. Only plain requests have one: nothing but credit, rates and concurrency bounds
// them (see Account).
type Pin struct {
	Request ids.RequestID
	Account ids.AccountID
	Key     ids.KeyID
	Model   string
	Billing BillingType
	Amount  money.NanoUSD
	// Prompt and MaxCompletion are in the unit of Rates.
	Prompt        int64
	MaxCompletion int64
	Images        int32
	// Pinned reports whether the consumer chose the provider.
	Pinned bool
	Price  ids.PriceVersionID
	// Rates are without a price for cached input, which only vendors have.
	Rates money.Rates
	// RateLimit, RateRemaining and RateReset are what the caller was told of its rate.
	RateLimit     int32
	RateRemaining int32
	RateReset     time.Duration
	// AdmittedAt is by the database's clock, in whole microseconds.
	AdmittedAt time.Time
	// Epoch names the slice that holds the amount until the hold is written.
	Epoch int64
}
