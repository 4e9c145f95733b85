package card

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Refunds gives back what was paid.
//
// A refund of credit takes the credit in the books when it is asked for, so that it is not spent
// meanwhile. If the card does not take it, it is credit again: no bank pays it.
//
// The refund is committed before the processor is asked, and the processor is asked under
// the refund's id: whoever dies between asks again and gets the same refund. A refund that
// the processor refuses is paid from the bank only if the processor's own figures have so
// much of the payment left. Otherwise the card's owner has the money already, by a dispute.
type Refunds struct {
	Store      RefundStore
	Processors Processors
	NewEntry   func() (ids.EntryID, error)
}

// Ask begins a refund, and tries once to end it. A repeat returns how it stands. It tries a
// refund only once, because further attempts wait.
func (s *Refunds) Ask(ctx context.Context, r Refund) (Refund, error) {
	switch {
	case r.ID.IsZero():
		return Refund{}, invalid("refund_id", "is malformed")
	case r.Amount < 0 || r.Amount > MaxAmount || r.Amount == 0 && r.Purpose != TopUp:
		return Refund{}, invalid("amount_cents", "must be 1 to %d", MaxAmount)
	}
	stands, err := s.Store.AskRefund(ctx, r, s.NewEntry)
	switch {
	case errors.Is(err, ErrNoCheckout):
		return Refund{}, noCheckout()
	case errors.Is(err, ErrTooMany):
		return Refund{}, tooManyRefunds()
	case errors.Is(err, ErrNotPaid), errors.Is(err, ErrExceeds), errors.Is(err, ErrSpent), errors.Is(err, ErrNotOwn),
		errors.Is(err, ErrTooOld):
		return Refund{}, fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed, "%v", err)
	case err != nil:
		return Refund{}, err
	case stands.Checkout != r.Checkout || r.Amount != 0 && stands.Amount != r.Amount:
		return Refund{}, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the refund has other contents").On("refund_id")
	case stands.State != Asked || stands.Attempt > 1:
		return stands, nil
	}
	crash.At("billing.card.refund_asked")
	state, err := s.try(ctx, stands)
	if err != nil {
		return stands, nil //nolint:nilerr // it is committed, and the next look tries again and logs
	}
	stands.State = state
	return stands, nil
}

// differsError is the error for a refund of the processor that differs from the refund asked
// for. Nothing is concluded from it.
type differsError struct{ alarm Alarm }

func (e differsError) Error() string {
	return "the card processor made another refund: " + e.alarm.Detail
}

// failedError is the error for an attempt that the card did not take: a refund of the processor
// that failed.
type failedError struct{ object string }

func (e failedError) Error() string { return "the card did not take the refund " + e.object }

// try asks the processor how a refund ends, and commits that.
func (s *Refunds) try(ctx context.Context, r Refund) (RefundState, error) {
	p, err := s.Processors.Of(r.Processor)
	if err != nil {
		return Asked, err
	}
	if !r.OnCard || r.Attempt > MaxAttempts {
		return s.withoutCard(ctx, p, r)
	}
	made, err := p.Refund(ctx, r.Key(), r.PaymentID, r.Amount)
	crash.At("billing.card.refund_made")
	switch {
	case errors.Is(err, ErrRefused):
		return s.withoutCard(ctx, p, r)
	case err != nil:
		return Asked, fmt.Errorf("refund %s by card: %w", r.ID, err)
	case r.differs(made) != "":
		object := made.ID
		if !isObjectID(object) {
			object = r.Key()
		}
		return Asked, differsError{Alarm{AlarmDiffers, object, r.differs(made)}}
	case made.State == ReturnMade:
		return s.Store.EndRefund(ctx, r, ByCard, made.ID, s.NewEntry)
	case made.State == ReturnFailed:
		return Asked, failedError{made.ID}
	}
	return Asked, nil // the processor has not said how it ends
}

// withoutCard ends a refund that no card takes.
func (s *Refunds) withoutCard(ctx context.Context, p Processor, r Refund) (RefundState, error) {
	if r.Purpose != Collateral {
		return s.Store.EndRefund(ctx, r, Reversed, "", s.NewEntry)
	}
	b, err := p.FetchBalance(ctx, r.PaymentID)
	if err != nil {
		return Asked, fmt.Errorf("read the payment of refund %s: %w", r.ID, err)
	}
	if b.Total != r.Total || b.Returned < 0 {
		return Asked, differsError{Alarm{AlarmDiffers, r.PaymentID,
			fmt.Sprintf("%d cents were paid; the processor says that %d of %d went back", r.Total, b.Returned, b.Total)}}
	}
	paid, err := s.Store.FromBank(ctx, r.PaymentID)
	if err != nil {
		return Asked, err
	}
	if b.Returned+paid+r.Amount > b.Total {
		return s.Store.EndRefund(ctx, r, Reversed, "", s.NewEntry)
	}
	return s.Store.EndRefund(ctx, r, FromBank, "", s.NewEntry)
}
