package payable

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// The reasons for which an invoice is not paid.
var (
	ErrNoVendor = errors.New("there is no such vendor")
	// ErrDiffers means that the invoice was paid with another amount or count.
	ErrDiffers = errors.New("the invoice was paid with other figures")
	// ErrNotOwed means that the vendor is owed less than the count of the invoice.
	ErrNotOwed = errors.New("less is owed than that")
	// ErrMachine: a machine may not pay or correct so much.
	ErrMachine = errors.New("a machine may not pay or correct so much")
)

// cent is the smallest unit that a bank pays.
const cent = money.USD / 100

// Payables lists what vendors are owed, and pays their invoices, for operators.
type Payables struct {
	Store    Store
	NewEntry func() (ids.EntryID, error)
}

// Balances returns one page of what vendors are owed: those that follow the vendor after in the order of
// ids. A size of 0 means DefaultPage. more reports whether another page follows.
func (p *Payables) Balances(
	ctx context.Context, after ids.ProviderID, size int,
) (page []Balance, more bool, err error) {
	if size == 0 {
		size = DefaultPage
	}
	if size < 1 || size > MaxPage {
		return nil, false, invalid("page_size", "must be between 1 and %d", MaxPage)
	}
	page, err = p.Store.VendorBalances(ctx, after, size+1)
	if err != nil {
		return nil, false, fmt.Errorf("list what vendors are owed: %w", err)
	}
	return page[:min(len(page), size)], len(page) > size, nil
}

// Pay pays an invoice in the name of the operator who calls, or asks for its payment where two operators
// are needed. A repeat returns the same payment.
func (p *Payables) Pay(ctx context.Context, i Invoice) (Payment, error) {
	if err := i.validate(); err != nil {
		return Payment{}, err
	}
	by := actor.OfOperator(ctx)
	if by == actor.Operator {
		return Payment{}, invalid("operator", "who pays must have a name")
	}
	paid, err := p.Store.PayVendor(ctx, i, func(s Standing) (Step, error) { return p.decide(i, s, by) })
	return paid, explain(err)
}

func (i Invoice) validate() error {
	switch {
	case i.Amount <= 0 || i.Amount > ledger.MaxAmount || i.Amount%cent != 0:
		return invalid("amount_usd", "must be dollars in whole cents, above 0 and at most %s", ledger.MaxAmount)
	case i.Counted <= 0 || i.Counted > ledger.MaxAmount:
		return invalid("counted_usd", "must be dollars, above 0 and at most %s, or left out where it is amount_usd",
			ledger.MaxAmount)
	case !account.ValidLabel(i.Note, 1, account.MaxMemo):
		return invalid("note", "must have 1 to %d printable characters", account.MaxMemo)
	}
	return nil
}

// decide returns what a call for an invoice does, by what is stored of the invoice.
func (p *Payables) decide(i Invoice, s Standing, by string) (Step, error) {
	stands := s.Before != nil && i.says(s.Before.Invoice)
	large := i.sum().large() || s.Lately.plus(i.sum()).large()
	switch {
	case s.Before != nil && s.Before.State() == Paid && !stands:
		return Step{}, ErrDiffers
	case s.Before != nil && s.Before.State() == Paid:
		return Step{Payment: *s.Before}, nil
	case stands && large && by == s.Before.AskedBy:
		return Step{Payment: *s.Before}, nil
	case i.Counted > s.Owed:
		return Step{}, ErrNotOwed
	case large && !actor.IsPerson(by):
		return Step{}, ErrMachine
	case large && !stands:
		return Step{Payment: Payment{Invoice: i, AskedBy: by, AskedAt: s.Now}, Changed: true}, nil
	}
	paid := Payment{Invoice: i, AskedBy: by, AskedAt: s.Now, PaidBy: by, PaidAt: s.Now}
	if stands {
		paid.Invoice, paid.AskedBy, paid.AskedAt = s.Before.Invoice, s.Before.AskedBy, s.Before.AskedAt
	}
	entries, err := p.entries(paid.Invoice)
	return Step{Payment: paid, Entries: entries, Changed: true}, err
}

// entries returns the entries that pay an invoice. The correction is posted with the payment, so the
// vendor's account is never below zero in between.
func (p *Payables) entries(i Invoice) ([]ledger.Entry, error) {
	fact, err := p.fact(i)
	if err != nil {
		return nil, err
	}
	payment, err := ledger.VendorPayment(fact, i.Vendor, i.Amount)
	if err != nil || i.Correction() == 0 {
		return []ledger.Entry{payment}, err
	}
	if fact, err = p.fact(i); err != nil {
		return nil, err
	}
	correction, err := ledger.VendorCorrection(fact, i.Vendor, i.Counted, i.Amount)
	return []ledger.Entry{correction, payment}, err
}

func (p *Payables) fact(i Invoice) (ledger.Fact, error) {
	id, err := p.NewEntry()
	if err != nil {
		return ledger.Fact{}, fmt.Errorf("make an entry id: %w", err)
	}
	return ledger.Fact{ID: id, BusinessID: i.BusinessID(), Memo: i.Note}, nil
}

func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoVendor):
		return fault.Wrap(err, fault.NotFound, fault.ProviderNotFound, "no vendor with this id has served a request")
	case errors.Is(err, ErrDiffers):
		return fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed,
			"this invoice of the vendor was paid with another amount or count").On("invoice")
	case errors.Is(err, ErrNotOwed):
		return fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed,
			"the vendor is owed less than that: counted_usd must be what was counted of the invoice, at most what is owed").
			On("counted_usd")
	case errors.Is(err, ErrMachine):
		return fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed,
			"two operators who signed in must say the same of an invoice above $%s, also together with what the vendor "+
				"was paid within 24 hours, and of a correction above $%s and a tenth of the count; a machine cannot pay it",
			One, MaxCorrection)
	}
	if _, ok := fault.As(err); ok {
		return err
	}
	return fmt.Errorf("pay a vendor: %w", err)
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
