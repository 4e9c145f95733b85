package account

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Cause is why an account is frozen. It is frozen until no cause is left.
type Cause string

// The causes.
const (
	// ByOperator is an operator's decision, which an operator lifts.
	ByOperator Cause = "operator"
	// ByDispute is a card payment that is disputed, until the dispute ends.
	ByDispute Cause = "dispute"
	// ByDebt is what the account owes because a card payment went back, until it is paid.
	ByDebt Cause = "debt"
	// ByLoss is a debt that was not paid in time, which an operator lifts.
	ByLoss Cause = "loss"
)

// Text says the cause to the account's user.
func (c Cause) Text() string {
	switch c {
	case ByOperator:
		return "an operator has frozen it"
	case ByDispute:
		return "a card payment of it is disputed"
	case ByDebt:
		return "it owes a card payment that was taken back: buy credit to pay the debt"
	case ByLoss:
		return "a debt of it was not paid in time"
	}
	return string(c)
}

// Freeze is one cause, and what it is about.
type Freeze struct {
	Cause Cause
	Ref   string
	At    time.Time
}

// Standing is what keeps an account from being used: what it owes, and why it is frozen.
type Standing struct {
	Owed    money.NanoUSD
	Freezes []Freeze
}

// Standings reads standings.
type Standings interface {
	Standing(ctx context.Context, id ids.AccountID) (Standing, error)
}
