package subscription

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Bounds of what callers say, in bytes.
const (
	maxPlan    = 32
	maxInvoice = 255
	maxMemo    = 200
)

// Sales answers consumers and operators.
type Sales struct {
	Store    Store
	Pages    Pages
	Counters Counters
	Clock    clock.Clock
	Random   io.Reader
	// Wake begins the next look of the worker at once.
	Wake func()
}

// View is what a consumer sees.
type View struct {
	// Subscription is zero where there never was one.
	Subscription
	// URL is where an incomplete subscription is paid; empty otherwise.
	URL string
	// InForce is the plan in force with its counters, also an operator's; nil for none.
	InForce *plan.Subscription
}

// Get shows the subscription of an account that has not ended, or else the last one.
func (s *Sales) Get(ctx context.Context, account ids.AccountID) (View, error) {
	b, err := s.Store.Current(ctx, account)
	if err != nil && !errors.Is(err, ErrNone) {
		return View{}, err
	}
	return s.view(ctx, account, b)
}

func (s *Sales) view(ctx context.Context, account ids.AccountID, b Subscription) (v View, err error) {
	v.Subscription = b
	if v.InForce, err = s.Counters.Of(ctx, account); err != nil {
		return View{}, err
	}
	if b.State == Incomplete {
		p, err := s.Pages.Page(ctx, b.Checkout)
		if err != nil {
			return View{}, err
		}
		if p.Open {
			v.URL = p.URL
		}
	}
	return v, nil
}

// Subscribe opens the page on which an account buys a plan. While there is a page that can be
// paid, it is that page. A subscription that was cancelled goes on.
func (s *Sales) Subscribe(ctx context.Context, account ids.AccountID, o Order) (View, error) {
	name := o.Plan
	if name == "" || len(name) > maxPlan {
		return View{}, invalid("plan", "is no plan")
	}
	if err := s.Pages.CheckReturn(o.ReturnURL); err != nil {
		return View{}, err
	}
	price, err := s.Store.Price(ctx, name)
	if errors.Is(err, ErrNotSold) {
		return View{}, invalid("plan", "is no plan that is sold")
	}
	if err != nil {
		return View{}, err
	}
	b, err := s.Store.Current(ctx, account)
	switch {
	case errors.Is(err, ErrNone):
	case err != nil:
		return View{}, err
	case b.State == Active || b.State == PastDue:
		return s.goOn(ctx, b, name)
	case b.State == Incomplete && b.Plan == name:
		if v, err := s.view(ctx, account, b); err != nil || v.URL != "" {
			return v, err
		}
	}
	page, err := s.Pages.Open(ctx, account, o, price)
	if err != nil {
		return View{}, err
	}
	id, err := ids.New[kind](s.Clock.Now(), s.Random)
	if err != nil {
		return View{}, fmt.Errorf("make the id of a subscription: %w", err)
	}
	stands, err := s.Store.Begin(ctx, Subscription{ID: id, Account: account, Plan: name, Price: price,
		Checkout: page.Checkout})
	switch {
	case errors.Is(err, ErrHasPlan):
		return View{}, fault.New(fault.Precondition, fault.AlreadyExists,
			"The account has a plan that an operator has given to it.").On("plan")
	case errors.Is(err, ErrNone):
		return View{}, fault.New(fault.NotFound, fault.AccountNotFound, "there is no such account")
	case err != nil:
		return View{}, err
	}
	return s.view(ctx, account, stands)
}

// goOn has a subscription go on that was cancelled.
func (s *Sales) goOn(ctx context.Context, b Subscription, name string) (View, error) {
	if b.Plan != name || !b.Cancel {
		return View{}, fault.New(fault.Precondition, fault.AlreadyExists,
			"The account has a subscription to the plan %s.", b.Plan).On("plan")
	}
	return s.setCancel(ctx, b.Account, false)
}

// Cancel has the subscription of an account end with its period.
func (s *Sales) Cancel(ctx context.Context, account ids.AccountID) (View, error) {
	return s.setCancel(ctx, account, true)
}

func (s *Sales) setCancel(ctx context.Context, account ids.AccountID, cancel bool) (View, error) {
	b, err := s.Store.SetCancel(ctx, account, cancel)
	if errors.Is(err, ErrNone) {
		return View{}, fault.New(fault.NotFound, fault.SubscriptionNotFound, "The account has no subscription.")
	}
	if err != nil {
		return View{}, err
	}
	s.Wake()
	return s.view(ctx, account, b)
}

// maxInvoices bounds a list of invoices. There is about one a month.
const maxInvoices = 100

// Invoices lists the invoices of an account, the newest first, at most 100. It fails with account_not_found.
func (s *Sales) Invoices(ctx context.Context, account ids.AccountID) ([]PaidPeriod, error) {
	list, err := s.Store.Invoices(ctx, account, maxInvoices)
	if errors.Is(err, ErrNone) {
		return nil, fault.New(fault.NotFound, fault.AccountNotFound, "there is no such account").On("account_id")
	}
	return list, err
}

// Refund has a paid invoice given back, for an operator. A repeat changes nothing.
func (s *Sales) Refund(ctx context.Context, invoice, memo string) error {
	switch {
	case invoice == "" || len(invoice) > maxInvoice || !utf8.ValidString(invoice):
		return invalid("invoice_id", "is malformed")
	case len(memo) > maxMemo || !utf8.ValidString(memo):
		return invalid("memo", "must have at most %d bytes", maxMemo)
	}
	err := s.Store.AskRefund(ctx, invoice, memo)
	if errors.Is(err, ErrNoInvoice) {
		return fault.New(fault.NotFound, fault.SubscriptionNotFound, "there is no such invoice").On("invoice_id")
	}
	if err == nil {
		s.Wake()
	}
	return err
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
