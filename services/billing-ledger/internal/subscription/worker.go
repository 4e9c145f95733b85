package subscription

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
)

const (
	// LookInterval is the pause between two looks for what is due.
	LookInterval = 5 * time.Second
	// batch bounds what one look takes of each kind.
	batch = 50
)

// Worker does what is due: it looks at the clock, tells the card processor of cancels and ends,
// and has invoices given back. What waits is a row with a due time, so twice or late is harmless.
type Worker struct {
	Store     Store
	Processor Processor
	Clock     clock.Clock
	Random    io.Reader
	Log       *slog.Logger
	// Alarm is told of an invoice that a person must give back.
	Alarm func(ctx context.Context, invoice, detail string) error
	// Still leaves out looks that would find nothing.
	Still *clock.Still

	wake chan struct{}
}

// NewWorker returns a worker; the fields are the caller's to fill.
func NewWorker(w Worker) *Worker {
	w.wake = make(chan struct{}, 1)
	return &w
}

// Wake begins the next look at once.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake
	}
}

// Run looks at what is due, at every interval and when it is woken, until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	timer := time.NewTicker(LookInterval)
	defer timer.Stop()
	for more := true; more; more = clock.Next(ctx, timer.C, w.wake, w.Still) {
		if err := w.Still.Learn(w.Look(ctx)); err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "subscriptions could not be looked at", "error", err)
		}
	}
}

// Look looks once at everything that is due. What fails is tried again, and keeps nothing else
// waiting.
func (w *Worker) Look(ctx context.Context) error {
	return errors.Join(
		each(ctx, w.Store.TakeDue, w.Store.Tick),
		each(ctx, w.Store.TakeTells, w.tell),
		each(ctx, w.Store.TakeRefunds, w.giveBack))
}

func each[T any](
	ctx context.Context, take func(context.Context, int) ([]T, error), do func(context.Context, T) error,
) error {
	list, err := take(ctx, batch)
	for _, one := range list {
		err = errors.Join(err, do(ctx, one))
	}
	return err
}

// tell tells the card processor how a subscription stands.
func (w *Worker) tell(ctx context.Context, b Subscription) error {
	tell := w.Processor.SetCancel
	if b.State == Ended {
		tell = w.Processor.End
	}
	if err := tell(ctx, b); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	crash.At("billing.subscription.told")
	return w.Store.Told(ctx, b)
}

// giveBack has the card processor give an invoice back, and commits that it did.
func (w *Worker) giveBack(ctx context.Context, r Refund) error {
	if r.Amount <= 0 {
		return w.Store.RefundEnded(ctx, r.Invoice) // it went back otherwise
	}
	back, made, err := w.Processor.Refund(ctx, r)
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrFailed):
		if err := w.Alarm(ctx, r.Invoice, err.Error()); err != nil {
			return err
		}
		return w.Store.RefundEnded(ctx, r.Invoice)
	case err != nil || !made:
		return err
	}
	crash.At("billing.subscription.refund_made")
	return w.Store.GiveBack(ctx, back, w.newEntry)
}

func (w *Worker) newEntry() (ids.EntryID, error) { return ids.NewEntry(w.Clock.Now(), w.Random) }
