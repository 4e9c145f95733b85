package refund

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
)

const (
	// MaxBatch bounds the refunds, and the parts of refunds, of one pass.
	MaxBatch = 100
	// Pause is the time until a refund is looked at again that nothing has moved.
	Pause = 15 * time.Second
	// bankPause is the time until it is looked again whether the card's owner was before the bank.
	bankPause = time.Minute
	// maxBackoff bounds the time until a call that was refused is tried again.
	maxBackoff = 10 * time.Minute
)

// Payment is a payment by card of which something is left.
type Payment struct {
	Checkout string
	Cents    int64
}

// Work is a part that is due.
type Work struct {
	Part
	// Of is the state of its refund.
	Of State
	// At is the position as it is, as far as a refund concerns it.
	At position.Position
	// Final is the time of the last final block of its chain; zero while that is unknown.
	Final time.Time
	// Others reports whether other payments by card of the refund are on their way back.
	Others bool
}

// Store keeps refunds.
type Store interface {
	// Ask begins a refund, or returns the refund that is open. It fails with refund_blocked, also within a day of the last
	// request, and with transition_not_allowed where there is nothing to refund.
	Ask(ctx context.Context, id ID, provider ids.ProviderID) (Refund, error)
	// Cancel takes a refund back, or returns the last one where that was cancelled. It fails with
	// transition_not_allowed.
	Cancel(ctx context.Context, provider ids.ProviderID) (Refund, error)
	// DueRefunds lists refunds that are due or being paid, and lets nobody else have them within pause.
	DueRefunds(ctx context.Context, pause time.Duration, limit int) ([]Refund, error)
	// Pay begins to pay a refund that is due, of these payments as much as is free. It reports false where something
	// holds the refund.
	Pay(ctx context.Context, r Refund, payments []Payment) (bool, error)
	// End ends a refund each of whose parts has ended.
	End(ctx context.Context, r Refund) error
	// DueParts lists parts that are due, and lets nobody else have them within pause.
	DueParts(ctx context.Context, pause time.Duration, limit int) ([]Work, error)
	// Begin records that a call is about to be sent. It reports false where the part has changed meanwhile.
	Begin(ctx context.Context, p Part, a Action, attempt int) (bool, error)
	// Wait lets a part wait.
	Wait(ctx context.Context, p Part, d time.Duration) error
	// Move moves a part that has not changed meanwhile, with its CardAttempt and the entry of the books that did it; zero
	// for none.
	Move(ctx context.Context, p Part, to PartState, entry ids.EntryID) error
	// Refund reads a refund with its parts. It fails with refund_not_found.
	Refund(ctx context.Context, id ID) (Refund, error)
	// ConfirmBank records that an operator pays those parts that a card could not take back. It fails with
	// refund_not_found and transition_not_allowed.
	ConfirmBank(ctx context.Context, id ID, parts []PartID, operator, reference string) (Refund, error)
}

// Ledger has the books. A fact that the books refuse for good is a fault.Precondition.
type Ledger interface {
	RefundAsked(ctx context.Context, p Part) (ids.EntryID, error)
	// Refunded ends a refund that is paid, by the part's attempt.
	Refunded(ctx context.Context, p Part, fromBank bool) (ids.EntryID, error)
	// RefundUndone ends a refund that is not paid.
	RefundUndone(ctx context.Context, p Part) (ids.EntryID, error)
}

// Cards gives payments by card back.
type Cards interface {
	// Payments lists what is left of a provider's payments.
	Payments(ctx context.Context, provider ids.ProviderID) ([]Payment, error)
	// PayBack gives a part of a payment back, once by the part's id. It returns the state that the part is in then, which
	// is PartPosted as long as the card processor has not said, and the attempt that brought it there.
	PayBack(ctx context.Context, p Part) (to PartState, attempt int, err error)
}

// Runner pays refunds.
type Runner struct {
	Store  Store
	Calls  chain.Sender
	Ledger Ledger
	Cards  Cards
}

// Pass does what is due, and returns how many refunds and parts it looked at. What fails keeps nothing else from it.
func (r *Runner) Pass(ctx context.Context) (looked int, err error) {
	due, err := r.Store.DueRefunds(ctx, Pause, MaxBatch)
	if err != nil {
		return 0, err
	}
	var faults []error
	for _, one := range due {
		if err := r.refund(ctx, one); err != nil {
			faults = append(faults, fmt.Errorf("refund %s: %w", one.ID, err))
		}
	}
	parts, err := r.Store.DueParts(ctx, Pause, MaxBatch)
	if err != nil {
		return len(due), errors.Join(append(faults, err)...)
	}
	for _, w := range parts {
		if err := r.part(ctx, w); err != nil {
			faults = append(faults, fmt.Errorf("part %s of refund %s: %w", w.ID, w.Refund, err))
		}
	}
	return len(due) + len(parts), errors.Join(faults...)
}

// refund begins to pay a refund, or ends it.
func (r *Runner) refund(ctx context.Context, one Refund) error {
	if one.State == Paying || one.State == Repaying {
		return r.Store.End(ctx, one)
	}
	payments, err := r.Cards.Payments(ctx, one.Provider)
	if err != nil {
		return err
	}
	_, err = r.Store.Pay(ctx, one, payments)
	return err
}

func (r *Runner) part(ctx context.Context, w Work) error {
	if w.ByCard() {
		return r.card(ctx, w)
	}
	outcome, err := chain.SendRefused, error(nil)
	if w.Action != None {
		if outcome, err = r.send(ctx, w.Part); err != nil {
			return err
		}
	}
	d := w.OnChain(w.Of, w.At, outcome, w.Final)
	switch {
	case d.State != "":
		return r.Store.Move(ctx, w.Part, d.State, ids.EntryID{})
	case d.Action == None || d.Action == w.Action && outcome != chain.SendRefused:
		return nil // a call that is done waits for its event
	default:
		return r.again(ctx, w.Part, d.Action, w.Attempt+1)
	}
}

// again sends a call as a further attempt. Attempts count through all actions of a part. One that follows a refusal
// waits before.
func (r *Runner) again(ctx context.Context, p Part, a Action, attempt int) error {
	began, err := r.Store.Begin(ctx, p, a, attempt)
	if err != nil || !began {
		return err
	}
	refused := p.Action == a
	p.Action, p.Attempt = a, attempt
	crash.At("settlement.refund.begun")
	if refused {
		return r.Store.Wait(ctx, p, min(time.Duration(attempt)*time.Minute, maxBackoff))
	}
	_, err = r.send(ctx, p)
	return err
}

func (r *Runner) send(ctx context.Context, p Part) (chain.SendOutcome, error) {
	return r.Calls.Send(ctx, chain.Sending{Chain: p.Chain, Key: p.Action.Key(),
		Purpose: "refund_" + string(p.Action), Ref: fmt.Sprintf("%s/%d", p.ID, p.Attempt), Data: p.Calldata(p.Action)})
}

func (r *Runner) card(ctx context.Context, w Work) error {
	p := w.Part
	switch p.OnCard().Action {
	case PostAsked:
		entry, err := r.Ledger.RefundAsked(ctx, p)
		if f, ok := fault.As(err); ok && f.Kind == fault.Precondition {
			if w.Others {
				return nil // they may give back what this part lacks
			}
			return r.Store.Move(ctx, p, PartCancelled, ids.EntryID{}) // the card's owner was first
		}
		if err != nil {
			return err
		}
		crash.At("settlement.refund.asked")
		return r.Store.Move(ctx, p, PartPosted, entry)
	case PayBack:
		to, attempt, err := r.Cards.PayBack(ctx, p)
		if err == nil && to == PartByBank && to == p.State {
			return r.Store.Wait(ctx, p, bankPause)
		}
		if err != nil || to == p.State {
			return err
		}
		crash.At("settlement.refund.paid_back")
		p.CardAttempt = max(p.CardAttempt, attempt)
		return r.Store.Move(ctx, p, to, ids.EntryID{})
	case PostPaid:
		entry, err := r.Ledger.Refunded(ctx, p, p.State == PartFromBank)
		if err != nil {
			return err
		}
		crash.At("settlement.refund.posted")
		return r.Store.Move(ctx, p, PartDone, entry)
	case PostUndo:
		entry, err := r.Ledger.RefundUndone(ctx, p)
		if err != nil {
			return err
		}
		crash.At("settlement.refund.undone")
		return r.Store.Move(ctx, p, PartReversed, entry)
	default:
		return nil
	}
}

// ConfirmBank records that an operator pays from the bank what cards could not take back. The books pay first: what the
// card's owner takes back later is owed, and what it took back before is not paid.
func (r *Runner) ConfirmBank(ctx context.Context, id ID, operator, reference string) (Refund, error) {
	one, err := r.Store.Refund(ctx, id)
	if err != nil {
		return Refund{}, err
	}
	var parts []PartID
	for _, p := range one.Parts {
		if p.State != PartByBank {
			continue
		}
		parts = append(parts, p.ID)
		_, err := r.Ledger.Refunded(ctx, p, true)
		if f, ok := fault.As(err); ok && f.Kind == fault.Precondition {
			return Refund{}, NotAllowed("the card's owner has taken a payment back: transfer nothing, and ask again in a minute")
		}
		if err != nil {
			return Refund{}, err
		}
		crash.At("settlement.refund.bank_posted")
	}
	return r.Store.ConfirmBank(ctx, id, parts, operator, reference)
}
