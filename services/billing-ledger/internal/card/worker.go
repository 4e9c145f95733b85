package card

import (
	"context"
	"errors"
	"fmt"
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
	// CheckoutInterval is the pause between two looks at one checkout.
	CheckoutInterval = 5 * time.Minute
	// ListInterval is the pause between two lists of what was made.
	ListInterval = 5 * time.Minute
	// batch bounds what one look takes of each kind, and maxPages the pages of a list.
	batch    = 50
	maxPages = 1000
)

// Worker looks at what is due.
type Worker struct {
	Store     Store
	Processor Processor
	Checkouts *Checkouts
	Refunds   *Refunds
	Clock     clock.Clock
	Random    io.Reader
	Log       *slog.Logger
	// Observe is told of every alarm that is new.
	Observe func(AlarmReason)

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
	for {
		w.Look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
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
		{"what was made at the card processor", w.list},
	} {
		if err := step.do(ctx); err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "card payments could not be looked at", "step", step.name, "error", err)
		}
	}
}

func (w *Worker) lookAtEvents(ctx context.Context) error {
	events, err := w.Store.TakeEvents(ctx, batch)
	for _, e := range events {
		failed := w.LookAt(ctx, e.Object)
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
	switch {
	case c.SessionID != "":
		return w.LookAt(ctx, Object{SessionObject, c.SessionID})
	case c.Over: // nobody was told of a page, so nobody pays
		return w.Store.Expire(ctx, c.ID)
	}
	_, err := w.Checkouts.begin(ctx, c.Checkout)
	return err
}

func (w *Worker) lookAtRefunds(ctx context.Context) error {
	due, err := w.Store.TakeRefunds(ctx, batch)
	for _, r := range due {
		_, failed := w.Refunds.try(ctx, r)
		var differs differsError
		if errors.As(failed, &differs) {
			failed = w.raise(ctx, differs.alarm)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// LookAt fetches an object and does what follows from it. Doing it twice changes nothing.
func (w *Worker) LookAt(ctx context.Context, o Object) error {
	var err error
	switch o.Kind {
	case SessionObject:
		var s Session
		if s, err = w.Processor.FetchSession(ctx, o.ID); err == nil {
			return w.session(ctx, s)
		}
	case RefundObject, DisputeObject, WonObject:
		if o.Kind == WonObject {
			o.Kind = DisputeObject
		}
		var r Return
		if r, err = w.Processor.FetchReturn(ctx, o); err == nil {
			return w.returned(ctx, r)
		}
	default:
		return nil
	}
	if errors.Is(err, ErrNoObject) {
		return w.raise(ctx, Alarm{AlarmMissing, o.ID, "the card processor knows no such " + string(o.Kind)})
	}
	return fmt.Errorf("fetch %s %s: %w", o.Kind, o.ID, err)
}

// session does what follows from a session.
func (w *Worker) session(ctx context.Context, s Session) error {
	c, err := w.checkout(ctx, s.Checkout)
	if errors.Is(err, ErrNoCheckout) {
		return w.raise(ctx, Alarm{AlarmForeign, s.ID, "a session of no checkout"})
	}
	if err != nil {
		return err
	}
	if why := mismatch(c, s); why != "" {
		if err := w.raise(ctx, Alarm{AlarmDiffers, s.ID, why}); err != nil {
			return err
		}
		return w.Store.StopLooking(ctx, c.ID)
	}
	if c.SessionID == "" {
		if _, err := w.Store.SetSession(ctx, c.ID, s); err != nil {
			return err
		}
	}
	switch s.State {
	case SessionPaid:
		return w.paid(ctx, c, s.Charge)
	case SessionExpired:
		return w.Store.Expire(ctx, c.ID)
	case SessionOpen:
	}
	return nil // the next look may find another state
}

// paid commits that a checkout is paid.
func (w *Worker) paid(ctx context.Context, c Checkout, charge Charge) error {
	late, err := w.Store.Pay(ctx, c.ID, charge, w.newEntry)
	switch {
	case errors.Is(err, ErrPaidTwice):
		return w.raise(ctx, Alarm{AlarmPaidTwice, charge.PaymentID, "the checkout " + c.ID.String() + " is paid"})
	case err != nil:
		return err
	case late != nil:
		w.tell(ctx, *late)
	}
	crash.At("billing.card.paid")
	return nil
}

// checkout finds a checkout by the text that a processor was given.
func (w *Worker) checkout(ctx context.Context, text string) (Checkout, error) {
	var id CheckoutID
	if err := id.UnmarshalText([]byte(text)); err != nil || id.IsZero() {
		return Checkout{}, ErrNoCheckout
	}
	return w.Store.Checkout(ctx, id)
}

// list looks at everything that was made at the processor lately and of which nothing has
// come yet.
func (w *Worker) list(ctx context.Context) error {
	since, now, due, err := w.Store.TakeListing(ctx, w.Processor.Name(), ListInterval)
	if err != nil || !due {
		return err
	}
	cursor := ""
	var failed error
	for range maxPages {
		var page []Object
		if page, cursor, err = w.Processor.List(ctx, since, cursor); err != nil {
			return fmt.Errorf("list what was made: %w", err)
		}
		unknown, err := w.Store.Unknown(ctx, page)
		if err != nil {
			return err
		}
		for _, o := range unknown {
			failed = errors.Join(failed, w.LookAt(ctx, o))
		}
		if cursor == "" && failed == nil {
			return w.Store.Listed(ctx, w.Processor.Name(), now)
		}
		if cursor == "" {
			return failed // the next list begins where this one did
		}
	}
	return errors.New("the list of what was made does not end")
}

func (w *Worker) raise(ctx context.Context, a Alarm) error {
	fresh, err := w.Store.Raise(ctx, a)
	if fresh {
		w.tell(ctx, a)
	}
	return err
}

// tell tells of an alarm that is kept.
func (w *Worker) tell(ctx context.Context, a Alarm) {
	w.Observe(a.Reason)
	w.Log.ErrorContext(ctx, "a card payment needs a person", "reason", string(a.Reason), "object", a.Object,
		"detail", a.Detail)
}

func (w *Worker) newEntry() (ids.EntryID, error) { return ids.NewEntry(w.Clock.Now(), w.Random) }
