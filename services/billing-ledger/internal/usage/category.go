package usage

import (
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/limit"
)

// CategoryPin names the category in which the terms of an account count a request, and the day
// (UTC, days since 1970) of its admission. The zero class is counted by none.
type CategoryPin struct {
	Class limit.Class
	Day   int32
}

// CategoryWindow is a category of an account on a day.
type CategoryWindow struct {
	Account ids.AccountID
	CategoryPin
}

// CategoryMove is what the end of requests does to the counters of a category: Left places
// become free, whatever the day, and Tokens are added to those of the day.
type CategoryMove struct {
	Left   int
	Tokens int64
}
