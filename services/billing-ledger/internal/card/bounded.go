package card

import (
	"context"
	"time"
)

// Bounded is a processor each of whose calls ends in time, so that one that does not answer holds
// up neither a caller nor what waits behind it.
type Bounded struct{ Processor }

// CreateSession implements Processor.
func (b Bounded) CreateSession(ctx context.Context, o Order) (Session, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.CreateSession(ctx, o)
}

// FetchSession implements Processor.
func (b Bounded) FetchSession(ctx context.Context, id string) (Session, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.FetchSession(ctx, id)
}

// FetchReturn implements Processor.
func (b Bounded) FetchReturn(ctx context.Context, o Object) (Return, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.FetchReturn(ctx, o)
}

// FetchBalance implements Processor.
func (b Bounded) FetchBalance(ctx context.Context, paymentID string) (Balance, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.FetchBalance(ctx, paymentID)
}

// Refund implements Processor.
func (b Bounded) Refund(ctx context.Context, key, paymentID string, amount Cents) (Return, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.Refund(ctx, key, paymentID, amount)
}

// List implements Processor.
func (b Bounded) List(ctx context.Context, since time.Time, cursor string) ([]Object, string, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.List(ctx, since, cursor)
}

// FetchSubscription implements Processor.
func (b Bounded) FetchSubscription(ctx context.Context, id string) (Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.FetchSubscription(ctx, id)
}

// FetchInvoice implements Processor.
func (b Bounded) FetchInvoice(ctx context.Context, id string) (Invoice, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.FetchInvoice(ctx, id)
}

// ListInvoices implements Processor.
func (b Bounded) ListInvoices(ctx context.Context, subscription, cursor string) ([]Invoice, string, error) {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.ListInvoices(ctx, subscription, cursor)
}

// EndAtPeriodEnd implements Processor.
func (b Bounded) EndAtPeriodEnd(ctx context.Context, id string, end bool) error {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.EndAtPeriodEnd(ctx, id, end)
}

// EndNow implements Processor.
func (b Bounded) EndNow(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, processorTimeout)
	defer cancel()
	return b.Processor.EndNow(ctx, id)
}
