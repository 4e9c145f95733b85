package card

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
)

const (
	// LookInterval is the pause between two looks for what is due.
	LookInterval = 5 * time.Second
	// CheckoutInterval is the pause between two looks at one checkout.
	CheckoutInterval = 5 * time.Minute
	// ListInterval is the pause between two lists of what was made.
	ListInterval = 5 * time.Minute
	// batch bounds what one look takes of each kind, and maxPages the pages of a list.
	batch    = 50
	maxPages = 1000
)

// Run looks at what is due, at every interval and when it is woken, until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	timer := time.NewTicker(LookInterval)
	defer timer.Stop()
	for more := true; more; more = clock.Next(ctx, timer.C, w.wake, w.Still) {
		w.Look(ctx)
	}
}

// Look looks once at everything that is due. What fails is tried again when it is due
// again, and keeps nothing else waiting.
func (w *Worker) Look(ctx context.Context) {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"events", w.lookAtEvents}, {"checkouts", w.lookAtCheckouts}, {"refunds", w.lookAtRefunds},
		{"debts", w.lookAtDebts},
		{"what was made at the card processor", w.list},
	} {
		if err := w.Still.Learn(step.do(ctx)); err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "card payments could not be looked at", "step", step.name, "error", err)
		}
	}
}

func (w *Worker) lookAtEvents(ctx context.Context) error {
	events, err := w.Store.TakeEvents(ctx, batch)
	for _, e := range events {
		failed := w.LookAt(ctx, e.Processor, e.Object)
		if failed == nil {
			failed = w.Store.EventHandled(ctx, e.ID)
		}
		err = errors.Join(err, failed)
	}
	return err
}

func (w *Worker) lookAtCheckouts(ctx context.Context) error {
	due, err := w.Store.TakeCheckouts(ctx, CheckoutInterval, batch)
	for _, c := range due {
		err = errors.Join(err, w.lookAtCheckout(ctx, c))
	}
	return err
}

// lookAtCheckout looks at the session of a checkout. A checkout without a session was
// interrupted; its session is asked for again, because it may have been made.
func (w *Worker) lookAtCheckout(ctx context.Context, c Due) error {
	p, err := w.Processors.Of(c.Processor)
	switch {
	case err != nil:
		return err
	case c.SessionID != "":
		s, err := p.FetchSession(ctx, c.SessionID)
		if c.Over && errors.Is(err, ErrNoObject) { // nobody can pay any more
			return errors.Join(w.notFetched(ctx, Object{SessionObject, c.SessionID}, err), w.Store.StopLooking(ctx, c.ID))
		}
		return w.lookedAt(ctx, c.SessionID, s, err)
	case c.Over: // nobody was told of a page, so nobody pays
		return w.Store.Expire(ctx, c.ID)
	}
	_, err = w.Checkouts.begin(ctx, c.Checkout)
	return err
}

func (w *Worker) lookAtRefunds(ctx context.Context) error {
	due, err := w.Store.TakeRefunds(ctx, batch)
	for _, r := range due {
		_, failed := w.Refunds.try(ctx, r)
		var differs differsError
		var attempt failedError
		switch {
		case errors.As(failed, &differs):
			failed = w.raise(ctx, differs.alarm)
		case errors.As(failed, &attempt):
			failed = w.failed(ctx, r, attempt.object)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// lookAtDebts pays debts of consumers from what they have.
func (w *Worker) lookAtDebts(ctx context.Context) error {
	due, err := w.Store.TakeDebts(ctx, batch)
	for _, reversal := range due {
		err = errors.Join(err, w.Store.RepayDebt(ctx, reversal, w.newEntry))
	}
	return errors.Join(err, w.Store.EndDisputes(ctx, batch))
}

// LookAt fetches an object of a processor and does what follows from it. Doing it twice changes
// nothing.
func (w *Worker) LookAt(ctx context.Context, processor string, o Object) error {
	p, err := w.Processors.Of(processor)
	if err != nil {
		return err
	}
	switch o.Kind {
	case SessionObject:
		s, err := p.FetchSession(ctx, o.ID)
		return w.lookedAt(ctx, o.ID, s, err)
	case InvoiceObject:
		return w.lookAtInvoice(ctx, processor, o.ID)
	case SubscriptionObject:
		return w.lookAtSubscription(ctx, processor, o.ID)
	case RefundObject, DisputeObject, WonObject, LostObject, FailedObject:
		switch o.Kind {
		case WonObject, LostObject:
			o.Kind = DisputeObject
		case FailedObject:
			o.Kind = RefundObject
		default: // it is what its kind says
		}
		r, err := p.FetchReturn(ctx, o)
		if err != nil {
			return w.notFetched(ctx, o, err)
		}
		if r.Object != o {
			return w.raise(ctx, Alarm{AlarmDiffers, o.ID, fmt.Sprintf("the card processor says that it is %.80q", r.ID)})
		}
		return w.returned(ctx, r)
	default:
		return nil
	}
}

// list looks at everything that was made at the processors lately and of which nothing has
// come yet.
func (w *Worker) list(ctx context.Context) error {
	var err error
	for _, p := range w.Processors.All() {
		err = errors.Join(err, w.listOf(ctx, p))
	}
	return err
}

func (w *Worker) listOf(ctx context.Context, p Processor) error {
	since, now, due, err := w.Store.TakeListing(ctx, p.Name(), ListInterval)
	if err != nil || !due {
		return err
	}
	cursor := ""
	var failed error
	for range maxPages {
		var page []Object
		if page, cursor, err = p.List(ctx, since, cursor); err != nil {
			return fmt.Errorf("list what was made: %w", err)
		}
		unknown, err := w.Store.Unknown(ctx, page)
		if err != nil {
			return err
		}
		for _, o := range unknown {
			failed = errors.Join(failed, w.LookAt(ctx, p.Name(), o))
		}
		if cursor == "" && failed == nil {
			return w.Store.Listed(ctx, p.Name(), now)
		}
		if cursor == "" {
			return failed // the next list begins where this one did
		}
	}
	return errors.New("the list of what was made does not end")
}
