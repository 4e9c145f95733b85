// Package sandbox is a card processor in which no money moves. It is what runs where no
// other processor is set, so that everything about cards can be tried: its pages have buttons
// to pay, for a card that is declined, for a dispute, to win or lose the dispute, and for a card that
// does not take a refund. It sends the events that a card processor sends, signed alike, to the
// same address.
//
// It keeps its sessions in tables of its own, which the rest of the service never reads:
// what is paid is known from its events and from what it answers, as with any processor.
// Whoever knows a session's id may press its buttons. An id has 130 random bits.
package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/card"
)

// Name is the processor's name.
const Name = "sandbox"

// SessionState is where a session stands.
type SessionState string

// The states of a session. An open session whose time is over is expired.
const (
	Open    SessionState = "open"
	Paid    SessionState = "paid"
	Expired SessionState = "expired"
)

// Session is a page and the payment that it became.
type Session struct {
	ID string
	// Checkout, Purpose, Provider and Account are what was said when it was made.
	Checkout, Purpose, Provider, Account, Plan string
	Description, ReturnURL                     string
	Total                                      card.Cents
	State                                      SessionState
	// Declined reports whether the last card that was tried was declined.
	Declined bool
	Expires  time.Time
	// PaymentID and CostID are empty until it is paid.
	PaymentID, CostID string
	Cost              card.Cents
	// Card is what the card is called.
	Card string
	// Subscription is what began with the payment of a plan; empty for everything else.
	Subscription string
	// Refunded and Disputed went back, in no refund that failed and no dispute that was won.
	Refunded, Disputed card.Cents
	// Lost reports whether its dispute was lost.
	Lost bool
}

// Return is a refund or a dispute.
type Return struct {
	ID        string
	Kind      card.ObjectKind
	SessionID string
	// PaymentID and Checkout are the session's.
	PaymentID, Checkout string
	Amount              card.Cents
	// Key is who asked for a refund; empty for a dispute.
	Key string
	// Won and Lost report how a dispute ended, and Failed whether a refund failed.
	Won, Failed, Lost bool
}

// Event is an event to send.
type Event struct {
	ID, Type, Object string
	// Tries is how often it was sent.
	Tries int
}

// The errors of a Store.
var (
	// ErrNone is the error for what there is not.
	ErrNone = errors.New("the sandbox has no such object")
	// ErrNotNow is the error for what the state forbids.
	ErrNotNow = errors.New("the session is in another state")
	// ErrTooMuch is the error for more than is left.
	ErrTooMuch = errors.New("less than that is left of the payment")
)

// Store keeps sessions, what went back, and the events that follow, each with what it
// follows from in one transaction. Its clock is the database's.
type Store interface {
	// MakeSession keeps a session, once for each checkout: it returns the first.
	MakeSession(ctx context.Context, s Session, lifetime time.Duration) (Session, error)
	// Session reads a session by its id, or returns ErrNone.
	Session(ctx context.Context, id string) (Session, error)
	// SessionOfPayment reads a session by its payment, or returns ErrNone.
	SessionOfPayment(ctx context.Context, paymentID string) (Session, error)
	// Pay pays an open session, once. With the payment of a plan its subscription begins, with its
	// first invoice. Its errors are ErrNone and ErrNotNow.
	Pay(ctx context.Context, id string, c card.Charge, e Event) error
	// Decline notes that a card was declined. Its errors are ErrNone and ErrNotNow.
	Decline(ctx context.Context, id string) error
	// Return keeps a refund or a dispute, once for each key and one dispute for a session.
	// It returns the first. Its errors are ErrNone, ErrNotNow and ErrTooMuch.
	Return(ctx context.Context, r Return, e Event) (Return, error)
	// Win notes that the dispute of a session was won, once. Its errors are ErrNone and
	// ErrNotNow.
	Win(ctx context.Context, session, event string) error
	// Lose notes that the dispute of a session was lost, once. Its errors are ErrNone and ErrNotNow.
	Lose(ctx context.Context, session, event string) error
	// FailRefund notes that the last refund of a session failed, once. Its errors are ErrNone and
	// ErrNotNow.
	FailRefund(ctx context.Context, session, event string) error
	// Returned reads a refund or a dispute, or returns ErrNone.
	Returned(ctx context.Context, id string) (Return, error)
	// Made lists what was made since a time, behind a cursor.
	Made(ctx context.Context, since time.Time, cursor string, limit int) (page []card.Object, next string, err error)
	SubscriptionStore
	// TakeEvents takes events that are due, and moves them on.
	TakeEvents(ctx context.Context, limit int) ([]Event, error)
	// EventSent ends an event.
	EventSent(ctx context.Context, id string) error
}

// Sandbox is the processor.
type Sandbox struct {
	Store Store
	// URL is where the public API is, without a slash at its end.
	URL    string
	Tariff card.Tariff
}

var _ card.Processor = (*Sandbox)(nil)

// Name implements card.Processor.
func (s *Sandbox) Name() string { return Name }

// Livemode implements card.Processor: no money moves.
func (s *Sandbox) Livemode() bool { return false }

// newID makes an id that nobody can guess.
func newID(kind string) string { return "sbx_" + kind + "_" + strings.ToLower(rand.Text()) }

// CreateSession implements card.Processor.
func (s *Sandbox) CreateSession(ctx context.Context, o card.Order) (card.Session, error) {
	c := o.Checkout
	made := Session{
		ID: newID("cs"), Checkout: c.ID.String(), Purpose: string(c.Purpose), Plan: c.Plan,
		Description: o.Description, ReturnURL: c.ReturnURL, Total: c.Total(), State: Open,
	}
	if !c.Provider.IsZero() {
		made.Provider = c.Provider.String()
	}
	if !c.Account.IsZero() {
		made.Account = c.Account.String()
	}
	first, err := s.Store.MakeSession(ctx, made, o.Lifetime)
	if err != nil {
		return card.Session{}, fmt.Errorf("make a session in the sandbox: %w", err)
	}
	return s.session(first), nil
}

// FetchSession implements card.Processor.
func (s *Sandbox) FetchSession(ctx context.Context, id string) (card.Session, error) {
	found, err := s.Store.Session(ctx, id)
	if err != nil {
		return card.Session{}, noObject(err)
	}
	return s.session(found), nil
}

func (s *Sandbox) session(f Session) card.Session {
	return card.Session{
		ID: f.ID, URL: s.URL + "/sandbox/checkout/" + f.ID, Checkout: f.Checkout, Purpose: f.Purpose,
		Provider: f.Provider, Account: f.Account, Plan: f.Plan, Total: f.Total, Currency: card.Currency,
		State: card.SessionState(f.State), Expires: f.Expires, Charge: f.charge(), Subscription: f.Subscription,
	}
}

// charge is what the card was charged, and what the sandbox kept of that.
func (f Session) charge() card.Charge {
	return card.Charge{PaymentID: f.PaymentID, CostID: f.CostID, Total: f.charged(), Cost: f.Cost, Fingerprint: f.Card}
}

// charged is what the card was charged.
func (f Session) charged() card.Cents {
	if f.State != Paid {
		return 0
	}
	return f.Total
}

// FetchReturn implements card.Processor.
func (s *Sandbox) FetchReturn(ctx context.Context, o card.Object) (card.Return, error) {
	r, err := s.Store.Returned(ctx, o.ID)
	if err == nil && r.Kind != o.Kind {
		err = ErrNone
	}
	if err != nil {
		return card.Return{}, noObject(err)
	}
	return returned(r), nil
}

func returned(r Return) card.Return {
	state := card.ReturnMade
	switch {
	case r.Won:
		state = card.ReturnWon
	case r.Lost:
		state = card.ReturnLost
	case r.Failed:
		state = card.ReturnFailed
	}
	return card.Return{
		Object: card.Object{Kind: r.Kind, ID: r.ID}, PaymentID: r.PaymentID, Checkout: checkoutOf(r.Checkout), Key: r.Key,
		Amount: r.Amount, Currency: card.Currency, State: state,
	}
}

// FetchBalance implements card.Processor.
func (s *Sandbox) FetchBalance(ctx context.Context, paymentID string) (card.Balance, error) {
	f, err := s.Store.SessionOfPayment(ctx, paymentID)
	if err != nil {
		return card.Balance{}, noObject(err)
	}
	return card.Balance{Total: f.Total, Returned: f.Refunded + f.Disputed}, nil
}

// Refund implements card.Processor. A payment in a dispute is not refunded.
func (s *Sandbox) Refund(ctx context.Context, key, paymentID string, amount card.Cents) (card.Return, error) {
	f, err := s.Store.SessionOfPayment(ctx, paymentID)
	if err != nil {
		return card.Return{}, noObject(err)
	}
	made := Return{ID: newID("re"), Kind: card.RefundObject, SessionID: f.ID, Amount: amount, Key: key}
	first, err := s.Store.Return(ctx, made, Event{ID: newID("evt"), Type: "refund.created", Object: made.ID})
	if errors.Is(err, ErrTooMuch) || errors.Is(err, ErrNotNow) {
		return card.Return{}, fmt.Errorf("%w: %w", card.ErrRefused, err)
	}
	if err != nil {
		return card.Return{}, fmt.Errorf("refund in the sandbox: %w", err)
	}
	return returned(first), nil
}

// maxPage bounds a page of a list.
const maxPage = 100

// List implements card.Processor.
func (s *Sandbox) List(ctx context.Context, since time.Time, cursor string) ([]card.Object, string, error) {
	return s.Store.Made(ctx, since, cursor, maxPage)
}

func noObject(err error) error {
	if errors.Is(err, ErrNone) {
		return fmt.Errorf("%w: %w", card.ErrNoObject, err)
	}
	return err
}

// Action is a button.
type Action string

// The buttons of a page.
const (
	PressPay        Action = "pay"
	PressDecline    Action = "decline"
	PressChargeBack Action = "chargeback"
	PressWin        Action = "win"
	PressLose       Action = "lose"
	PressFailRefund Action = "fail_refund"
	// PressMonth has a month pass for a subscription. PressDeclines has its card declined from now
	// on, and PressAccepts taken again. PressQuit ends it, as the card's owner may at his bank.
	PressMonth    Action = "month"
	PressDeclines Action = "declines"
	PressAccepts  Action = "accepts"
	PressQuit     Action = "quit"
)

// Page reads what a page shows.
func (s *Sandbox) Page(ctx context.Context, id string) (Session, error) {
	f, err := s.Store.Session(ctx, id)
	return f, explain(err)
}

// Act presses a button, and returns what the page shows then. Pressing it again changes
// nothing.
func (s *Sandbox) Act(ctx context.Context, id string, a Action) (Session, error) {
	f, err := s.Store.Session(ctx, id)
	if err != nil {
		return Session{}, explain(err)
	}
	switch a {
	case PressPay:
		err = s.Store.Pay(ctx, id, s.newCharge(f.Total, newID("card")),
			Event{ID: newID("evt"), Type: "checkout.session.completed", Object: id})
	case PressDecline:
		err = s.Store.Decline(ctx, id)
	case PressChargeBack:
		err = s.chargeBack(ctx, f)
	case PressWin:
		err = s.Store.Win(ctx, id, newID("evt"))
	case PressLose:
		err = s.Store.Lose(ctx, id, newID("evt"))
	case PressFailRefund:
		err = s.Store.FailRefund(ctx, id, newID("evt"))
	case PressMonth, PressDeclines, PressAccepts, PressQuit:
		err = s.onSubscription(ctx, f, a)
	default:
		return Session{}, fault.New(fault.Invalid, fault.InvalidValue, "there is no such button").On("action")
	}
	if err != nil {
		return Session{}, explain(err)
	}
	return s.Page(ctx, id)
}

func (s *Sandbox) newCharge(total card.Cents, of string) card.Charge {
	return card.Charge{PaymentID: newID("pi"), CostID: newID("bt"), Total: total, Cost: min(s.Tariff.Cost(total), total),
		Fingerprint: of}
}

// chargeBack disputes what is left of a payment.
func (s *Sandbox) chargeBack(ctx context.Context, f Session) error {
	if f.Disputed > 0 {
		return nil
	}
	d := Return{ID: newID("dp"), Kind: card.DisputeObject, SessionID: f.ID, Amount: f.Total - f.Refunded}
	_, err := s.Store.Return(ctx, d, Event{ID: newID("evt"), Type: "charge.dispute.created", Object: d.ID})
	return err
}

func explain(err error) error {
	switch {
	case errors.Is(err, ErrNone):
		return fault.New(fault.NotFound, fault.SessionNotFound, "There is no such page.")
	case errors.Is(err, ErrNotNow), errors.Is(err, ErrTooMuch):
		return fault.New(fault.Precondition, fault.TransitionNotAllowed, "That cannot be done with this page now.")
	}
	return err
}
