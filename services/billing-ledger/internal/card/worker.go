package card

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
)

// Worker looks at what is due.
type Worker struct {
	Store      Store
	Processors Processors
	Checkouts  *Checkouts
	Refunds    *Refunds
	Plans      Plans
	// Fingerprints is the key under which cards are told apart.
	Fingerprints []byte
	Clock        clock.Clock
	Random       io.Reader
	Log          *slog.Logger
	// Observe is told of every alarm that is new.
	Observe func(AlarmReason)
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

// lookAtSession fetches the session of a checkout and does what follows from it.
func (w *Worker) lookAtSession(ctx context.Context, c Checkout) error {
	p, err := w.Processors.Of(c.Processor)
	if err != nil {
		return err
	}
	s, err := p.FetchSession(ctx, c.SessionID)
	return w.lookedAt(ctx, c.SessionID, s, err)
}

// lookedAt does what follows from an answer about a session.
func (w *Worker) lookedAt(ctx context.Context, id string, s Session, err error) error {
	if err != nil {
		return w.notFetched(ctx, Object{SessionObject, id}, err)
	}
	if s.ID != id {
		return w.raise(ctx, Alarm{AlarmDiffers, id, fmt.Sprintf("the card processor says that it is %.80q", s.ID)})
	}
	return w.session(ctx, s)
}

// notFetched says why an object could not be fetched. An object that does not exist needs a person.
func (w *Worker) notFetched(ctx context.Context, o Object, err error) error {
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
	switch {
	case s.State == SessionPaid && c.Purpose == PlanPurpose:
		return w.subscribed(ctx, c, s)
	case s.State == SessionPaid:
		return w.paid(ctx, c, s.Charge)
	case s.State == SessionExpired:
		return w.Store.Expire(ctx, c.ID)
	}
	return nil // the next look may find another state
}

// paid commits that a checkout is paid.
func (w *Worker) paid(ctx context.Context, c Checkout, charge Charge) error {
	charge.Fingerprint = w.fingerprint(charge.Fingerprint)
	late, err := w.Store.Pay(ctx, c.ID, charge, w.newEntry)
	switch {
	case errors.Is(err, ErrPaidTwice):
		return w.raise(ctx, Alarm{AlarmPaidTwice, charge.PaymentID, "the checkout " + c.ID.String() + " is paid otherwise"})
	case err != nil:
		return err
	case late != nil:
		w.tell(ctx, *late)
	}
	crash.At("billing.card.paid")
	return nil
}

// fingerprint is the digest by which a card is known here; empty for a card that is not known. The
// card processor's word for the card is kept nowhere.
func (w *Worker) fingerprint(card string) string {
	if card == "" {
		return ""
	}
	mac := hmac.New(sha256.New, w.Fingerprints)
	mac.Write([]byte(card))
	return string(mac.Sum(nil))
}

// checkout finds a checkout by the text that a processor was given.
func (w *Worker) checkout(ctx context.Context, text string) (Checkout, error) {
	var id CheckoutID
	if err := id.UnmarshalText([]byte(text)); err != nil || id.IsZero() {
		return Checkout{}, ErrNoCheckout
	}
	return w.Store.Checkout(ctx, id)
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
