// Package work is what the verifier does by itself. Each part is a loop that any number of
// replicas may run at once, because the database decides who does what:
//
//   - Seen records which offers and references there are, and gives each offer a standing;
//   - Planning plans each offer's probes of the hour;
//   - Queue takes probes that are due, carries them out and has them judged;
//   - Benchmarks begins benchmark runs and carries them to their end;
//   - Calibrations asks references until thresholds can be made of it;
//   - Ticks moves standings by time alone, Pairs by pairs of family F;
//   - Guard looks for common causes;
//   - Penalties hears what became of penalties.
//
// All that moves a standing goes through a Mover.
package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// storeTimeout bounds what is recorded of something that has happened, also while the
// process stops.
const storeTimeout = 30 * time.Second

// Model is what the catalog says of a model.
type Model struct {
	Active, Embeddings bool
	// Window and MaxOutput are in tokens.
	Window, MaxOutput int64
	Files             [32]byte
}

// Models knows the catalog.
type Models interface {
	// Find returns a model, and reports whether the catalog has it.
	Find(id string) (Model, bool)
}

// Observer is told what happens, for metrics. Every field must be set.
type Observer struct {
	// Probed is how a probe ended: done, void or given_back, and why.
	Probed func(ctx context.Context, plan probe.Plan, end, reason string)
	// Moved is what an event brought.
	Moved func(ctx context.Context, o probe.Offer, e standing.Event, out standing.Outcome)
}

// Mover moves standings.
type Mover struct {
	Store    *store.Store
	Limits   ladder.Thresholds
	Offers   *offers.View
	Models   Models
	Book     *Book
	Log      *slog.Logger
	Observer Observer
	// Changed has the routers told of a provider.
	Changed func(provider ids.ProviderID)
}

// Move moves the standing of an offer by an event. The key names the event: the same key
// again changes nothing.
func (m *Mover) Move(
	ctx context.Context, o probe.Offer, key store.EventKey, e standing.Event,
) (standing.Outcome, error) {
	out, err := m.Store.Advance(ctx, o, key, func(now time.Time, before standing.State, p store.ProviderStanding) (
		standing.Event, standing.World, standing.State, standing.Outcome, error,
	) {
		w := m.world(o, key, e, p)
		after, out, err := before.Apply(e, now, w)
		return e, w, after, out, err
	})
	if err != nil {
		return standing.Outcome{}, err
	}
	m.Observer.Moved(ctx, o, e, out)
	for _, v := range out.Verdicts {
		m.Log.InfoContext(ctx, "a verdict", "verdict_id", v.ID.String(), "provider_id", o.Provider.String(), "model", o.Model,
			"kind", string(v.Kind), "trigger", v.Trigger, "needs_operator", v.NeedsOperator, "summary", v.Summary)
	}
	m.Changed(o.Provider)
	return out, nil
}

// world is what a step depends on beside the state.
func (m *Mover) world(o probe.Offer, key store.EventKey, e standing.Event, p store.ProviderStanding) standing.World {
	known, _ := m.Offers.Find(o)
	stratum := m.Stratum(known)
	if e.Judged != nil {
		stratum = e.Judged.Plan.Stratum
	}
	w := standing.World{
		Offer: o, Key: string(key), Limits: m.Limits, Brakes: p.Brakes(m.Book.WatchOnly(stratum)), Rank: p.Rank,
		Penalties: p.Penalties, LastPenaltyAt: p.LastPenaltyAt, StatedTokens: m.Stated(known),
	}
	for _, seat := range known.Seats {
		if seat.Active && seat.ActiveSince.After(w.ActiveSince) {
			w.ActiveSince = seat.ActiveSince
		}
	}
	return w
}

// Stated is the longest prompt that an offer's statement promises to take: the shortest
// window that its nodes report, at most the catalog's; 0 where none is reported.
func (m *Mover) Stated(o offers.Offer) int64 {
	stated := int64(0)
	for _, seat := range o.Seats {
		if w := seat.Model.Window; w > 0 && (stated == 0 || w < stated) {
			stated = w
		}
	}
	if model, ok := m.Models.Find(o.Model); ok && model.Window > 0 && stated > model.Window {
		stated = model.Window
	}
	return stated
}

// References are the classes that references of a model serve now.
func References(seats []offers.Seat) []quant.Class {
	var classes []quant.Class
	for _, s := range seats {
		known := false
		for _, c := range classes {
			known = known || c == s.Model.Class
		}
		if !known {
			classes = append(classes, s.Model.Class)
		}
	}
	return classes
}

// Stratum is what an offer is judged by, as far as it is known now.
func (m *Mover) Stratum(o offers.Offer) calibration.Stratum {
	t := calibration.Stratum{Model: o.Model}
	if model, ok := m.Models.Find(o.Model); ok {
		t.Files = model.Files
	}
	if len(o.Seats) == 0 {
		return t
	}
	seat := o.Seats[0]
	t.Engine, t.GPU = seat.Model.Engine, seat.GPU
	if class, ok := quant.Judged(seat.Model.Class, References(m.Offers.References(o.Model))); ok {
		t.Class = class
	}
	return t
}

// later is ctx for what must be recorded although the process stops.
func later(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

// warn logs an error of a loop, unless the loop is ending.
func warn(ctx context.Context, log *slog.Logger, what string, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		log.WarnContext(ctx, what, "error", err)
	}
}

// isNone reports whether an error says that there is no such offer or standing yet.
func isNone(err error) bool {
	return errors.Is(err, store.ErrStanding) || errors.Is(err, store.ErrOffer)
}
