package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/effects"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// penaltyInterval is the pause between two questions to settlement about penalties that are
// open. Its messages come at once and may be lost.
const penaltyInterval = 10 * time.Minute

// PenaltyStates asks settlement where a penalty stands.
type PenaltyStates interface {
	// State returns the state of a penalty that was opened before.
	State(ctx context.Context, p peers.Penalty) (string, error)
}

// Penalties hears what became of penalties.
type Penalties struct {
	Store      *store.Store
	Mover      *Mover
	Settlement PenaltyStates
	Log        *slog.Logger
	Haste      Haste
}

// finals are the states of settlement that move a standing.
var finals = map[string]standing.Final{
	"executed": standing.Executed, "reversed": standing.Reversed, "upheld": standing.Upheld,
}

// Changed takes over that a penalty has another state.
func (p *Penalties) Changed(ctx context.Context, id probe.VerdictID, state string) error {
	final, ok := finals[state]
	if !ok {
		return nil
	}
	v, err := p.Store.Verdict(ctx, id)
	if errors.Is(err, store.ErrVerdict) {
		return nil // of another installation's database
	}
	if err != nil {
		return err
	}
	key := store.EventKey("penalty/" + id.String() + "/" + state)
	_, err = p.Mover.Move(ctx, v.Offer, key, standing.Event{Penalty: &standing.PenaltyMoved{Verdict: id, Final: final}})
	if errors.Is(err, standing.ErrEvent) {
		return nil // it ended before
	}
	return err
}

// Run asks for what was not heard, until ctx ends.
func (p *Penalties) Run(ctx context.Context) {
	for range clock.Every(ctx, p.Haste.Of(penaltyInterval)) {
		warn(ctx, p.Log, "penalties could not be asked for", p.Pass(ctx))
	}
}

// Pass asks settlement for every penalty that is open. A penalty of which it cannot ask keeps
// no other waiting.
func (p *Penalties) Pass(ctx context.Context) error {
	var bad faults
	var after probe.Offer
	for {
		list, err := p.Store.OffersUnderPenalty(ctx, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, o := range list {
			if err := p.offer(ctx, o, &bad); err != nil {
				return err
			}
			after = o
		}
		if len(list) < store.MaxPage {
			return bad.err()
		}
	}
}

// offer asks for the penalties of one offer.
func (p *Penalties) offer(ctx context.Context, o probe.Offer, bad *faults) error {
	st, err := p.Store.Standing(ctx, o)
	if err != nil {
		return bad.add(ctx, err)
	}
	for _, open := range st.State.Open {
		if open.Pending {
			continue
		}
		if err := bad.add(ctx, p.ask(ctx, open.Verdict)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Penalties) ask(ctx context.Context, id probe.VerdictID) error {
	v, err := p.Store.Verdict(ctx, id)
	if err != nil {
		return err
	}
	pieces, err := p.Store.Pieces(ctx, v.Offer, v.Number, v.Number, 1)
	if err != nil || len(pieces) == 0 {
		return err
	}
	state, err := p.Settlement.State(ctx, PenaltyOf(v.Verdict, pieces[0].Leaf))
	if err != nil {
		return err
	}
	return p.Changed(ctx, id, state)
}

// PenaltyOf is the penalty that a verdict opens at settlement. Its evidence hash is the leaf
// of the verdict's own piece of evidence.
func PenaltyOf(v standing.Verdict, leaf [32]byte) peers.Penalty {
	return peers.Penalty{
		Verdict: v.ID, Offer: v.Offer, Kind: string(v.Kind), BasisPoints: int(v.Effects.Slash), Removes: v.Effects.Remove,
		Summary: v.Summary, EvidenceHash: leaf, Family: familyOf(v),
	}
}

// familyOf names the evidence of a verdict as providers hear it: see console.Own.
func familyOf(v standing.Verdict) string {
	switch {
	case v.Kind == standing.Benchmark:
		return string(standing.Benchmark)
	case v.Leading == evidence.NoFamily:
		return ""
	default:
		return v.Leading.String()
	}
}

// Outbox gives the store's effects to package effects.
type Outbox struct{ *store.Store }

// TakeEffects implements effects.Outbox.
func (o Outbox) TakeEffects(ctx context.Context, replica string, limit int) ([]effects.Effect, error) {
	list, err := o.Store.TakeEffects(ctx, replica, limit)
	if err != nil {
		return nil, err
	}
	out := make([]effects.Effect, len(list))
	for i, e := range list {
		out[i] = effects.Effect{
			ID: e.ID, Kind: effects.Kind(e.Kind), Provider: e.Verdict.Offer.Provider, Subject: e.Subject,
			Revision: e.Revision, Summary: e.Verdict.Summary, Penalty: PenaltyOf(e.Verdict, e.Leaf),
			Passed: !e.PassedAt.IsZero(), PassedAt: e.PassedAt,
		}
	}
	return out, nil
}
