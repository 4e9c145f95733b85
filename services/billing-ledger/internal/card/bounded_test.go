package card

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// silent is a processor that never answers.
type silent struct{}

func (silent) Name() string   { return "silent" }
func (silent) Livemode() bool { return false }

func (silent) wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s silent) CreateSession(ctx context.Context, _ Order) (Session, error) {
	return Session{}, s.wait(ctx)
}

func (s silent) FetchSession(ctx context.Context, _ string) (Session, error) {
	return Session{}, s.wait(ctx)
}

func (s silent) FetchReturn(ctx context.Context, _ Object) (Return, error) {
	return Return{}, s.wait(ctx)
}

func (s silent) FetchBalance(ctx context.Context, _ string) (Balance, error) {
	return Balance{}, s.wait(ctx)
}

func (s silent) Refund(ctx context.Context, _, _ string, _ Cents) (Return, error) {
	return Return{}, s.wait(ctx)
}

func (s silent) List(ctx context.Context, _ time.Time, _ string) ([]Object, string, error) {
	return nil, "", s.wait(ctx)
}

func (s silent) FetchSubscription(ctx context.Context, _ string) (Subscription, error) {
	return Subscription{}, s.wait(ctx)
}

func (s silent) FetchInvoice(ctx context.Context, _ string) (Invoice, error) {
	return Invoice{}, s.wait(ctx)
}

func (s silent) ListInvoices(ctx context.Context, _, _ string) ([]Invoice, string, error) {
	return nil, "", s.wait(ctx)
}

func (s silent) EndAtPeriodEnd(ctx context.Context, _ string, _ bool) error { return s.wait(ctx) }

func (s silent) EndNow(ctx context.Context, _ string) error { return s.wait(ctx) }

func TestAProcessorThatNeverAnswersHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, Processor) error{
		"a page":   func(ctx context.Context, p Processor) error { _, err := p.CreateSession(ctx, Order{}); return err },
		"session":  func(ctx context.Context, p Processor) error { _, err := p.FetchSession(ctx, "x"); return err },
		"a return": func(ctx context.Context, p Processor) error { _, err := p.FetchReturn(ctx, Object{}); return err },
		"balance":  func(ctx context.Context, p Processor) error { _, err := p.FetchBalance(ctx, "x"); return err },
		"a refund": func(ctx context.Context, p Processor) error { _, err := p.Refund(ctx, "x", "y", 1); return err },
		"a subscription": func(ctx context.Context, p Processor) error {
			_, err := p.FetchSubscription(ctx, "x")
			return err
		},
		"an invoice": func(ctx context.Context, p Processor) error { _, err := p.FetchInvoice(ctx, "x"); return err },
		"invoices": func(ctx context.Context, p Processor) error {
			_, _, err := p.ListInvoices(ctx, "x", "")
			return err
		},
		"an end":     func(ctx context.Context, p Processor) error { return p.EndNow(ctx, "x") },
		"a late end": func(ctx context.Context, p Processor) error { return p.EndAtPeriodEnd(ctx, "x", true) },
		"the list": func(ctx context.Context, p Processor) error {
			_, _, err := p.List(ctx, time.Time{}, "")
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			if err := call(t.Context(), Bounded{silent{}}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got the error %v, want %v", name, err, context.DeadlineExceeded)
			}
			if got := time.Since(begun); got != processorTimeout {
				t.Errorf("%s: got an answer after %v, want one after %v", name, got, processorTimeout)
			}
		})
	}
}
