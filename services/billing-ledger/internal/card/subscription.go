package card

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// SubscriptionState is where a subscription stands at the card processor.
type SubscriptionState string

// The states of a subscription. What a plan gives is decided by paid invoices and never by the
// processor's state of the subscription.
const (
	SubscriptionIncomplete SubscriptionState = "incomplete"
	SubscriptionActive     SubscriptionState = "active"
	SubscriptionPastDue    SubscriptionState = "past_due"
	SubscriptionEnded      SubscriptionState = "ended"
)

// Subscription is a processor's word on a recurring payment.
type Subscription struct {
	ID string
	// Checkout, Account and Plan are what was said when its page was made.
	Checkout, Account, Plan string
	Livemode                bool
	State                   SubscriptionState
	// EndsAtPeriodEnd reports whether it ends with its period.
	EndsAtPeriodEnd bool
	PeriodEnd       time.Time
	// LatestInvoice is the id of its last invoice; empty before the first.
	LatestInvoice string
}

// InvoiceState is where an invoice stands at the card processor.
type InvoiceState string

// The states of an invoice.
const (
	InvoiceOpen InvoiceState = "open"
	InvoicePaid InvoiceState = "paid"
	// InvoiceVoid will not be paid.
	InvoiceVoid InvoiceState = "void"
)

// Invoice is a processor's word on the price of one period.
type Invoice struct {
	ID, Subscription string
	Total            Cents
	Currency         string
	Livemode         bool
	State            InvoiceState
	// Tries is how often a card was tried.
	Tries       int
	PeriodStart time.Time
	PeriodEnd   time.Time
	// Made is when it was made. Paid and Charge are set once it is paid.
	Made, Paid time.Time
	Charge     Charge
}

// Subscriptions is what a card processor does about recurring payments. A subscription begins on
// the page that CreateSession makes for a checkout of the purpose plan: the amount is charged at
// once and then every month.
type Subscriptions interface {
	// FetchSubscription reads a subscription, or returns ErrNoObject.
	FetchSubscription(ctx context.Context, id string) (Subscription, error)
	// FetchInvoice reads an invoice, or returns ErrNoObject. An invoice is paid once its payment
	// and what the processor kept of it are final.
	FetchInvoice(ctx context.Context, id string) (Invoice, error)
	// ListInvoices lists the invoices of a subscription, the newest first, at most a page. cursor
	// is empty for the first page, and next after the last.
	ListInvoices(ctx context.Context, subscription, cursor string) (page []Invoice, next string, err error)
	// EndAtPeriodEnd has a subscription end with its period, or go on. A repeat changes nothing.
	// ErrNoObject says that there is none, or that it has ended.
	EndAtPeriodEnd(ctx context.Context, id string, end bool) error
	// EndNow ends a subscription for ever, with its open invoices. A repeat changes nothing.
	EndNow(ctx context.Context, id string) error
}

// Plans is who sells plans. It alone decides what follows from subscriptions and their invoices.
type Plans interface {
	// Heard commits what follows from what the processor says of a subscription and of one invoice
	// of it, whose ID is empty where there is none yet. Both are those of the checkout: amount,
	// currency, account, plan and mode were compared. The same news may come twice, late, and
	// in any order.
	Heard(ctx context.Context, c Checkout, s Subscription, i Invoice) error
	// Returned commits that money of an invoice went back, by a refund or a dispute, once. Its
	// errors are ErrNotPaid for a payment that was not heard of yet, ErrReused and ErrExceeds.
	Returned(ctx context.Context, c Checkout, r Return) error
}

// PlanKey begins the keys under which refunds of plans are asked for.
const PlanKey = "plan/"

// planReturned does what follows from a refund or a dispute of a plan's payment. What it took ends
// with the plan, so a person sees to money that comes again.
func (w *Worker) planReturned(ctx context.Context, c Checkout, r Return) error {
	if r.State == ReturnFailed || r.State == ReturnWon {
		if err := w.raise(ctx, Alarm{AlarmRefundFailed, r.ID,
			fmt.Sprintf("%d cents of payment %s of a plan are here again", r.Amount, r.PaymentID)}); err != nil {
			return err
		}
	}
	if r.State == ReturnFailed {
		return nil
	}
	err := w.Plans.Returned(ctx, c, r)
	if errors.Is(err, ErrNotPaid) && c.SessionID != "" {
		// It came before the news of the payment, which may be of an earlier invoice than the last.
		if err := w.lookAtSession(ctx, c); err != nil {
			return err
		}
		if err = w.Plans.Returned(ctx, c, r); errors.Is(err, ErrNotPaid) {
			return fmt.Errorf("return %s of payment %s: %w", r.ID, r.PaymentID, err)
		}
	}
	return w.odd(ctx, r, err)
}

// subscribed does what follows from a plan's session that is paid.
func (w *Worker) subscribed(ctx context.Context, c Checkout, s Session) error {
	if err := w.lookAtSubscription(ctx, c.Processor, s.Subscription); err != nil {
		return err
	}
	return w.Store.Complete(ctx, c.ID)
}

// lookAtSubscription fetches a subscription and its last invoice.
func (w *Worker) lookAtSubscription(ctx context.Context, processor, id string) error {
	p, err := w.Processors.Of(processor)
	if err != nil {
		return err
	}
	s, err := p.FetchSubscription(ctx, id)
	if err != nil {
		return w.notFetched(ctx, Object{SubscriptionObject, id}, err)
	}
	var i Invoice
	if s.LatestInvoice != "" {
		if i, err = p.FetchInvoice(ctx, s.LatestInvoice); err != nil {
			return w.notFetched(ctx, Object{InvoiceObject, s.LatestInvoice}, err)
		}
	}
	if s.ID != id || i.ID != s.LatestInvoice {
		return w.raise(ctx, Alarm{AlarmDiffers, id, fmt.Sprintf("the card processor says that it is %.80q", s.ID)})
	}
	return w.heard(ctx, s, i)
}

// lookAtInvoice fetches an invoice and its subscription.
func (w *Worker) lookAtInvoice(ctx context.Context, processor, id string) error {
	p, err := w.Processors.Of(processor)
	if err != nil {
		return err
	}
	i, err := p.FetchInvoice(ctx, id)
	if err != nil {
		return w.notFetched(ctx, Object{InvoiceObject, id}, err)
	}
	if i.ID != id || !isObjectID(i.Subscription) {
		return w.raise(ctx, Alarm{AlarmDiffers, id, fmt.Sprintf("it is %.80q of subscription %.80q", i.ID, i.Subscription)})
	}
	s, err := p.FetchSubscription(ctx, i.Subscription)
	if err != nil {
		return w.notFetched(ctx, Object{SubscriptionObject, i.Subscription}, err)
	}
	return w.heard(ctx, s, i)
}

// heard hands on what a processor says of a subscription, if it is that of a checkout of ours.
func (w *Worker) heard(ctx context.Context, s Subscription, i Invoice) error {
	c, err := w.checkout(ctx, s.Checkout)
	switch {
	case errors.Is(err, ErrNoCheckout), err == nil && c.Purpose != PlanPurpose:
		return w.raise(ctx, Alarm{AlarmForeign, s.ID, "a subscription of no checkout"})
	case err != nil:
		return err
	}
	if why := planDiffers(c, s, i); why != "" {
		return w.raise(ctx, Alarm{AlarmDiffers, s.ID, why})
	}
	i.Charge.Fingerprint = w.fingerprint(i.Charge.Fingerprint)
	if i.State == InvoicePaid {
		// A payment is that of a paid checkout.
		if err := w.Store.Complete(ctx, c.ID); err != nil {
			return err
		}
	}
	return w.Plans.Heard(ctx, c, s, i)
}

// planDiffers says in what a subscription or its invoice is not that of a checkout, "" where it is.
func planDiffers(c Checkout, s Subscription, i Invoice) string {
	if why := same([]part{
		{"account", s.Account, c.Account.String()},
		{"plan", s.Plan, c.Plan},
		{"livemode", fmt.Sprint(s.Livemode), fmt.Sprint(c.Livemode)},
		{"id", fmt.Sprint(isObjectID(s.ID)), "true"},
	}); why != "" || i.ID == "" {
		return why
	}
	if why := same([]part{
		{"invoice", fmt.Sprint(isObjectID(i.ID)), "true"},
		{"subscription", i.Subscription, s.ID},
		{"currency", i.Currency, Currency},
		{"amount", fmt.Sprint(i.Total), fmt.Sprint(c.Total())},
		{"livemode", fmt.Sprint(i.Livemode), fmt.Sprint(c.Livemode)},
	}); why != "" {
		return why
	}
	if i.State != InvoicePaid {
		return ""
	}
	if i.Paid.IsZero() || !i.PeriodEnd.After(i.PeriodStart) {
		return fmt.Sprintf("period: got %v to %v, paid at %v", i.PeriodStart, i.PeriodEnd, i.Paid)
	}
	return i.Charge.differs(i.Total)
}
