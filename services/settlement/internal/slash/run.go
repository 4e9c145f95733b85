package slash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/penalty"
)

const (
	// MaxBatch bounds the parts of one pass.
	MaxBatch = 100
	// Pause is the time until a part is looked at again that nothing has moved.
	Pause = 15 * time.Second
	// maxBackoff bounds the time until a call that was refused is tried again.
	maxBackoff = 10 * time.Minute
)

// Work is a part that is due.
type Work struct {
	Part
	// Of is the state of its penalty.
	Of penalty.State
	// Final is the time of the last final block of its chain; zero while that is unknown.
	Final time.Time
	// Short reports that its position has less than the part, by the final events of its chain. It is false for
	// collateral by card.
	Short bool
	// Quote is the price of what was taken; its rate is 0 until it is fixed.
	Quote chain.Quote
}

// Store keeps parts.
type Store interface {
	// Due lists parts that are due, and lets nobody else have them within pause.
	Due(ctx context.Context, pause time.Duration, limit int) ([]Work, error)
	// Begin records that a call is about to be sent. It reports false where the part has changed meanwhile.
	Begin(ctx context.Context, p Part, a Action, attempt int) (bool, error)
	// Wait lets a part wait.
	Wait(ctx context.Context, p Part, d time.Duration) error
	// Move moves a part that has not changed meanwhile, with the entry of the books that did it; zero for none.
	Move(ctx context.Context, p Part, to State, entry ids.EntryID) error
	// Price fixes the price of what was taken, once.
	Price(ctx context.Context, p Part, q chain.Quote) error
	// Taken records the entry of what was taken on a chain.
	Taken(ctx context.Context, p Part, entry ids.EntryID) error
	// AppealedOnChain lists parts that were appealed on their chain and whose penalty was not.
	AppealedOnChain(ctx context.Context, limit int) ([]Part, error)
}

// Ledger has the books. A fact that the books refuse for good is a fault.Precondition.
type Ledger interface {
	CollateralSlashed(ctx context.Context, p Part) (ids.EntryID, error)
	SlashForfeited(ctx context.Context, p Part) (ids.EntryID, error)
	SlashWon(ctx context.Context, p Part) (ids.EntryID, error)
	ChainSlashed(ctx context.Context, p Part, q chain.Quote) (ids.EntryID, error)
}

// Quotes has the prices of coins.
type Quotes interface {
	// Quote returns the price of an asset now. It fails where there is none.
	Quote(ctx context.Context, on chain.ID) (chain.Quote, error)
}

// Appeals takes an appeal of a depositor on a chain as one of the provider.
type Appeals interface {
	AppealOnChain(ctx context.Context, id penalty.ID, depositor chain.Address, on chain.ID) error
}

// Runner moves parts.
type Runner struct {
	Store   Store
	Calls   chain.Sender
	Ledger  Ledger
	Quotes  Quotes
	Appeals Appeals
}

// Pass does what is due, and returns how many parts it looked at. A part that fails keeps no other from it.
func (r *Runner) Pass(ctx context.Context) (looked int, err error) {
	var faults []error
	appealed, err := r.Store.AppealedOnChain(ctx, MaxBatch)
	if err != nil {
		return 0, err
	}
	for _, p := range appealed {
		faults = append(faults, r.Appeals.AppealOnChain(ctx, p.Penalty, p.Depositor, p.Chain))
	}
	due, err := r.Store.Due(ctx, Pause, MaxBatch)
	if err != nil {
		return 0, errors.Join(append(faults, err)...)
	}
	for _, w := range due {
		if err := r.step(ctx, w); err != nil {
			faults = append(faults, fmt.Errorf("part %x of penalty %s: %w", w.ID, w.Penalty, err))
		}
	}
	return len(due), errors.Join(faults...)
}

func (r *Runner) step(ctx context.Context, w Work) error {
	if w.State == Executed {
		return r.taken(ctx, w)
	}
	switch action := w.Due(w.Of, w.Final); action {
	case None:
		return nil
	case Drop:
		return r.Store.Move(ctx, w.Part, Missed, ids.EntryID{})
	case PostSlashed:
		return r.post(ctx, w, r.Ledger.CollateralSlashed, Escrowed)
	case PostForfeited:
		return r.post(ctx, w, r.Ledger.SlashForfeited, Executed)
	case PostWon:
		return r.post(ctx, w, r.Ledger.SlashWon, Reversed)
	default:
		return r.call(ctx, w, action)
	}
}

// post posts a part by card, and moves it. What the books refuse at the beginning was never in escrow.
func (r *Runner) post(
	ctx context.Context, w Work, fact func(context.Context, Part) (ids.EntryID, error), to State,
) error {
	entry, err := fact(ctx, w.Part)
	if f, ok := fault.As(err); ok && f.Kind == fault.Precondition && to == Escrowed {
		return r.Store.Move(ctx, w.Part, Missed, ids.EntryID{})
	}
	if err != nil {
		return err
	}
	crash.At("settlement.slash.posted")
	return r.Store.Move(ctx, w.Part, to, entry)
}

// taken posts what was taken on a chain, at a price that is fixed before.
func (r *Runner) taken(ctx context.Context, w Work) error {
	if w.Quote.Rate == 0 && r.Quotes != nil {
		q, err := r.Quotes.Quote(ctx, w.Chain)
		if err != nil {
			return err
		}
		if q.Rate != 0 {
			return r.Store.Price(ctx, w.Part, q) // and posted with the next look
		}
	}
	entry, err := r.Ledger.ChainSlashed(ctx, w.Part, w.Quote)
	if err != nil {
		return err
	}
	crash.At("settlement.slash.taken")
	return r.Store.Taken(ctx, w.Part, entry)
}

// call sends a call, or looks what became of it. What the contract refused of a penalty that is reversed is not
// proposed again. Neither is a part that the contract has refused MaxProposals times while the position has less than
// the part. A part whose position has enough is not given up, because the contract then refuses for another reason,
// such as a role that was revoked, which an operator mends (alert PenaltyPartsStuck).
func (r *Runner) call(ctx context.Context, w Work, a Action) error {
	p := w.Part
	if p.Action != a {
		return r.again(ctx, p, a, 1)
	}
	outcome, err := r.send(ctx, p)
	if err != nil {
		return err
	}
	if outcome != chain.SendRefused {
		return nil // the event moves the part
	}
	if a == Propose && (w.Of == penalty.Reversed || w.Short && p.Attempt >= MaxProposals) {
		return r.Store.Move(ctx, p, Missed, ids.EntryID{})
	}
	return r.again(ctx, p, a, p.Attempt+1)
}

// again sends a call as a further attempt. The first goes at once, and others wait before.
func (r *Runner) again(ctx context.Context, p Part, a Action, attempt int) error {
	began, err := r.Store.Begin(ctx, p, a, attempt)
	if err != nil || !began {
		return err
	}
	p.Action, p.Attempt = a, attempt
	crash.At("settlement.slash.begun")
	if attempt > 1 {
		return r.Store.Wait(ctx, p, min(time.Duration(attempt)*time.Minute, maxBackoff))
	}
	_, err = r.send(ctx, p)
	return err
}

func (r *Runner) send(ctx context.Context, p Part) (chain.SendOutcome, error) {
	return r.Calls.Send(ctx, chain.Sending{Chain: p.Chain, Key: p.Action.Key(), Purpose: "slash_" + string(p.Action),
		Ref: fmt.Sprintf("%x/%d", p.ID, p.Attempt), Data: p.Calldata(p.Action)})
}
