package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"svc.internal/services/billing-ledger/internal/card"
)

// RetryInterval is the pause after a try of a card that was declined.
const RetryInterval = 24 * time.Hour

// maxInvoices bounds a page of invoices, and renewBatch the subscriptions that one look renews.
const (
	maxInvoices = 100
	renewBatch  = 20
)

// Subscription is a plan that is paid every month.
type Subscription struct {
	ID string
	// SessionID is the page on which it began. Checkout, Account and Plan are the page's.
	SessionID, Checkout, Account, Plan string
	Total                              card.Cents
	// Card is what the card is called, and Declines reports whether it is declined.
	Card            string
	Declines        bool
	PeriodEnd       time.Time
	EndsAtPeriodEnd bool
	Ended           bool
	// LatestInvoice is its last invoice, and Unpaid reports whether that is open.
	LatestInvoice string
	Unpaid        bool
}

// Invoice is the price of a period.
type Invoice struct {
	ID, Subscription string
	Number, Tries    int
	Start, End, Made time.Time
	Void             bool
	// Session is the session that paid it, with its time; zero until then.
	Session string
	Paid    time.Time
	Charge  card.Charge
	Total   card.Cents
}

// SubscriptionStore keeps subscriptions. A month is one of the database's calendar.
type SubscriptionStore interface {
	// Subscription reads a subscription, or returns ErrNone.
	Subscription(ctx context.Context, id string) (Subscription, error)
	// Invoice reads an invoice, or returns ErrNone.
	Invoice(ctx context.Context, id string) (Invoice, error)
	// Invoices lists invoices of a subscription, the newest first, with numbers below before, or all.
	Invoices(ctx context.Context, subscription string, before, limit int) ([]Invoice, error)
	// TakeSubscriptions takes subscriptions that are due, and moves them on.
	TakeSubscriptions(ctx context.Context, limit int) ([]string, error)
	// Renew does what is due of a subscription: it begins the next period with an open invoice, or
	// ends. An open invoice is paid with the charge, or is tried in vain.
	Renew(ctx context.Context, id string, c card.Charge, newID func(kind string) string) error
	// Change changes a subscription that has not ended: whether it ends at its period's end,
	// whether its card is declined, and when it is looked at. Its errors are ErrNone and ErrNotNow.
	Change(ctx context.Context, id string, c Change, event string) error
	// End ends a subscription with its open invoices, once.
	End(ctx context.Context, id, event string) error
}

// Change is what changes of a subscription; nil for what stays.
type Change struct {
	EndsAtPeriodEnd, Declines *bool
	// Month ends its period now.
	Month bool
}

// FetchSubscription implements card.Processor.
func (s *Sandbox) FetchSubscription(ctx context.Context, id string) (card.Subscription, error) {
	f, err := s.Store.Subscription(ctx, id)
	if err != nil {
		return card.Subscription{}, noObject(err)
	}
	state := card.SubscriptionActive
	switch {
	case f.Ended:
		state = card.SubscriptionEnded
	case f.Unpaid:
		state = card.SubscriptionPastDue
	}
	return card.Subscription{ID: f.ID, Checkout: f.Checkout, Account: f.Account, Plan: f.Plan, State: state,
		EndsAtPeriodEnd: f.EndsAtPeriodEnd, PeriodEnd: f.PeriodEnd, LatestInvoice: f.LatestInvoice}, nil
}

// FetchInvoice implements card.Processor.
func (s *Sandbox) FetchInvoice(ctx context.Context, id string) (card.Invoice, error) {
	f, err := s.Store.Invoice(ctx, id)
	if err != nil {
		return card.Invoice{}, noObject(err)
	}
	return f.invoice(), nil
}

func (f Invoice) invoice() card.Invoice {
	i := card.Invoice{ID: f.ID, Subscription: f.Subscription, Total: f.Total, Currency: card.Currency, Tries: f.Tries,
		PeriodStart: f.Start, PeriodEnd: f.End, Made: f.Made, Paid: f.Paid, State: card.InvoiceOpen}
	switch {
	case f.Session != "":
		i.State, i.Charge = card.InvoicePaid, f.Charge
	case f.Void:
		i.State = card.InvoiceVoid
	}
	return i
}

// ListInvoices implements card.Processor. A cursor is the number of the last invoice.
func (s *Sandbox) ListInvoices(
	ctx context.Context, subscription, cursor string,
) (page []card.Invoice, next string, err error) {
	var before int
	if cursor != "" {
		if _, err := fmt.Sscanf(cursor, "%d", &before); err != nil {
			return nil, "", fmt.Errorf("read a cursor: %w", err)
		}
	}
	list, err := s.Store.Invoices(ctx, subscription, before, maxInvoices)
	if err != nil {
		return nil, "", err
	}
	for _, f := range list {
		page = append(page, f.invoice())
	}
	if len(list) == maxInvoices {
		next = fmt.Sprint(list[len(list)-1].Number)
	}
	return page, next, nil
}

// EndAtPeriodEnd implements card.Processor.
func (s *Sandbox) EndAtPeriodEnd(ctx context.Context, id string, end bool) error {
	err := s.Store.Change(ctx, id, Change{EndsAtPeriodEnd: &end}, newID("evt"))
	if errors.Is(err, ErrNotNow) {
		err = ErrNone
	}
	return noObject(err)
}

// EndNow implements card.Processor.
func (s *Sandbox) EndNow(ctx context.Context, id string) error {
	return noObject(s.Store.End(ctx, id, newID("evt")))
}

// Renew charges the subscriptions that are due.
func (s *Sandbox) Renew(ctx context.Context) error {
	due, err := s.Store.TakeSubscriptions(ctx, renewBatch)
	for _, id := range due {
		err = errors.Join(err, s.renew(ctx, id))
	}
	return err
}

func (s *Sandbox) renew(ctx context.Context, id string) error {
	f, err := s.Store.Subscription(ctx, id)
	if err != nil {
		return err
	}
	return s.Store.Renew(ctx, id, s.newCharge(f.Total, f.Card), newID)
}

// onSubscription presses a button about the subscription of a page.
func (s *Sandbox) onSubscription(ctx context.Context, f Session, a Action) error {
	if f.Subscription == "" {
		return ErrNotNow
	}
	declines := a == PressDeclines
	switch a {
	case PressMonth:
		if err := s.Store.Change(ctx, f.Subscription, Change{Month: true}, newID("evt")); err != nil {
			return err
		}
		return s.renew(ctx, f.Subscription)
	case PressDeclines, PressAccepts:
		if err := s.Store.Change(ctx, f.Subscription, Change{Declines: &declines}, newID("evt")); err != nil || declines {
			return err
		}
		return s.renew(ctx, f.Subscription)
	default:
		return s.Store.End(ctx, f.Subscription, newID("evt"))
	}
}

// checkoutOf is the checkout of a session. Renewals have the checkout of the page on which the
// subscription began, followed by the number of their invoice.
func checkoutOf(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}
