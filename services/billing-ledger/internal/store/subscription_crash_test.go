package store_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// dying has a process die once, before or after a method has committed.
type dying struct {
	store.Subscriptions
	death brittle
}

func (d *dying) Hear(ctx context.Context, n subscription.News, newID func() (ids.EntryID, error)) error {
	return d.death.around("Hear", func() error { return d.Subscriptions.Hear(ctx, n, newID) })
}

func (d *dying) Told(ctx context.Context, b subscription.Subscription) error {
	return d.death.around("Told", func() error { return d.Subscriptions.Told(ctx, b) })
}

func (d *dying) GiveBack(ctx context.Context, r subscription.Return, newID func() (ids.EntryID, error)) error {
	return d.death.around("GiveBack", func() error { return d.Subscriptions.GiveBack(ctx, r, newID) })
}

// aProcessor makes a refund once for each invoice, however often it is asked.
type aProcessor struct {
	cancelled, ended bool
	refunds          map[string]bool
}

func (p *aProcessor) SetCancel(_ context.Context, b subscription.Subscription) error {
	p.cancelled = b.Cancel
	return nil
}

func (p *aProcessor) End(context.Context, subscription.Subscription) error {
	p.ended = true
	return nil
}

func (p *aProcessor) Refund(_ context.Context, r subscription.Refund) (subscription.Return, bool, error) {
	p.refunds[r.Invoice] = true
	return subscription.Return{ID: "re_" + r.Invoice, Payment: r.Payment, Amount: r.Amount}, true, nil
}

// lookTwice looks as a process that died, and then as the next one, to which everything is due.
func lookTwice(t *testing.T, e *env, w *subscription.Worker) {
	t.Helper()
	for range 2 {
		e.exec(t, `UPDATE subscription SET tell_at = now() WHERE tell_at IS NOT NULL`)
		e.exec(t, `UPDATE plan_invoice SET refund_due_at = now() WHERE refund_due_at IS NOT NULL`)
		_ = w.Look(t.Context()) // a death is one of its errors
	}
}

// A plan is paid, cancelled and given back, while a process dies before or after each thing that
// it commits. Whatever it is, the plan ends alike: everything is posted and told once.
func TestACrashAtAnyArrowOfASubscriptionChangesNothing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"", "Hear", "Told", "GiveBack"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s after=%t", method, after), func(t *testing.T) {
				t.Parallel()
				e := setup(t, unlimited)
				c := e.consumer(t, 0)
				b := e.subscribed(t, c)
				s := &dying{Subscriptions: e.sales(), death: brittle{fails: method, after: after}}
				p := &aProcessor{refunds: map[string]bool{}}
				w := subscription.NewWorker(subscription.Worker{Store: s, Processor: p, Clock: clock.System, Random: rand.Reader})
				news := newsOf(b, invoice("1", time.Hour, aMonth))
				if err := s.Hear(t.Context(), news, newEntryID); err != nil {
					err = s.Hear(t.Context(), news, newEntryID)
					if err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.SetCancel(t.Context(), c.account, true); err != nil {
					t.Fatal(err)
				}
				lookTwice(t, e, w)
				if !p.cancelled {
					t.Error("the card processor heard of no cancel, want one")
				}
				if err := s.AskRefund(t.Context(), "in_1", "asked for it"); err != nil {
					t.Fatal(err)
				}
				lookTwice(t, e, w)
				e.wantState(t, c, subscription.Ended, subscription.WasRefunded)
				if !p.ended {
					t.Error("the card processor heard of no end, want one")
				}
				if s.death.broke != (method != "") {
					t.Errorf("broke: got %t, want %t", s.death.broke, method != "")
				}
				if len(p.refunds) != 1 {
					t.Errorf("refunds at the processor: got %d, want 1", len(p.refunds))
				}
				if got := e.poolNow(t); got != 0 {
					t.Errorf("pool: got %s, want 0", got)
				}
				if n := scan[int64](t, e, `SELECT count(*) FROM subscription WHERE tell_at IS NOT NULL`); n != 0 {
					t.Errorf("still to tell: got %d, want 0", n)
				}
				if n := scan[int64](t, e, `SELECT count(*) FROM entry WHERE kind LIKE 'plan_%'`); n != 2 {
					t.Errorf("entries of plans: got %d, want 2", n)
				}
				e.sound(t)
			})
		}
	}
}
