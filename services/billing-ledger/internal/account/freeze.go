package account

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
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
	// Lifted is zero while it freezes the account.
	Lifted time.Time
}

// DebtState is where a debt stands.
type DebtState string

// The states of a debt. One that is undone came back, and one that is lost was not paid in time.
const (
	DebtOpen   DebtState = "open"
	DebtPaid   DebtState = "paid"
	DebtUndone DebtState = "undone"
	DebtLost   DebtState = "lost"
)

// Debt is what an account owes for a payment that was taken back.
type Debt struct {
	// Ref is the card processor's dispute or refund.
	Ref                      string
	Owed, Paid, Lost, Undone money.NanoUSD
	At                       time.Time
}

// Left is what is still to be paid.
func (d Debt) Left() money.NanoUSD { return d.Owed - d.Paid - d.Lost - d.Undone }

// State is where the debt stands.
func (d Debt) State() DebtState {
	switch {
	case d.Left() > 0:
		return DebtOpen
	case d.Lost > 0:
		return DebtLost
	case d.Undone > 0:
		return DebtUndone
	}
	return DebtPaid
}

// Standing is what keeps an account from being used: what it owes, and why it is frozen. Its debts
// are those that have ended too.
type Standing struct {
	Owed    money.NanoUSD
	Freezes []Freeze
	Debts   []Debt
}

// Standings reads standings.
type Standings interface {
	Standing(ctx context.Context, id ids.AccountID) (Standing, error)
}

// MaxRef bounds what an operator's cause is about, in characters.
const MaxRef = 80

// FreezeStore keeps causes. Each change is one operator's action, with its note.
type FreezeStore interface {
	Standings
	// Freezes lists the causes of an account, the newest first. Its error is ErrNotFound.
	Freezes(ctx context.Context, id ids.AccountID) ([]Freeze, error)
	// FreezeBy adds an operator's cause, once. LiftCause lifts a cause, once. Their error is ErrNotFound.
	FreezeBy(ctx context.Context, id ids.AccountID, ref, note string) error
	LiftCause(ctx context.Context, id ids.AccountID, cause Cause, ref, note string) error
}

// Freezes answers operators who freeze accounts and lift causes.
type Freezes struct{ Store FreezeStore }

// List lists the causes of an account, the newest first.
func (f *Freezes) List(ctx context.Context, id ids.AccountID) ([]Freeze, error) {
	list, err := f.Store.Freezes(ctx, id)
	if err != nil {
		return nil, explain(err, "list why an account is frozen")
	}
	return list, nil
}

// Freeze adds an operator's cause.
func (f *Freezes) Freeze(ctx context.Context, id ids.AccountID, ref, note string) ([]Freeze, error) {
	if err := checkCause(ref, note, MaxRef); err != nil {
		return nil, err
	}
	if err := f.Store.FreezeBy(ctx, id, ref, note); err != nil {
		return nil, explain(err, "freeze an account")
	}
	return f.List(ctx, id)
}

// Lift lifts a cause. A debt is lifted by its payment alone.
func (f *Freezes) Lift(ctx context.Context, id ids.AccountID, cause Cause, ref, note string) ([]Freeze, error) {
	switch cause {
	case ByOperator, ByDispute, ByLoss:
	case ByDebt:
		return nil, fault.New(fault.Precondition, fault.TransitionNotAllowed, "a debt is lifted by its payment").On("cause")
	default:
		return nil, invalid("cause", "must be %s, %s or %s", ByOperator, ByDispute, ByLoss)
	}
	if err := checkCause(ref, note, maxObject); err != nil {
		return nil, err
	}
	if err := f.Store.LiftCause(ctx, id, cause, ref, note); err != nil {
		return nil, explain(err, "lift a cause")
	}
	return f.List(ctx, id)
}

// maxObject bounds the card processor's name of what a cause is about.
const maxObject = 255

func checkCause(ref, note string, longest int) error {
	switch {
	case !ValidLabel(ref, 0, longest):
		return invalid("ref", "must have at most %d printable characters", longest)
	case !ValidLabel(note, 1, MaxMemo):
		return invalid("note", "must have 1 to %d printable characters", MaxMemo)
	}
	return nil
}
