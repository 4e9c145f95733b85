package work

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

const (
	// tickInterval is the pause between two looks for standings that time alone may move.
	tickInterval = time.Minute
	// tickBatch bounds the standings of a look: all of 12,000 are looked at within an hour.
	tickBatch = 200
	// pairInterval is the pause between two looks for complete pairs.
	pairInterval = 10 * time.Second
)

// Ticks moves standings by time alone: periods that end, trust that fades. Those above
// normal are looked at every five minutes, because their next step may wait for a time.
type Ticks struct {
	Store *store.Store
	Mover *Mover
	Log   *slog.Logger
	Haste Haste

	after probe.Offer
}

// Run ticks until ctx ends.
func (t *Ticks) Run(ctx context.Context) {
	n := 0
	for range clock.Every(ctx, t.Haste.Of(tickInterval)) {
		warn(ctx, t.Log, "standings could not be moved on", t.Pass(ctx, n%5 == 0))
		n++
	}
}

// Pass ticks some of all standings, going on where the last pass ended, and with climbing
// set all that are above normal.
func (t *Ticks) Pass(ctx context.Context, climbing bool) error {
	now, err := t.Store.Now(ctx)
	if err != nil {
		return err
	}
	// Opinions have the names alone: a state that was altered on disk must not stop the rest.
	opinions, err := t.Store.Opinions(ctx, t.after, tickBatch)
	if err != nil {
		return err
	}
	list := make([]probe.Offer, len(opinions))
	for i, o := range opinions {
		list[i] = o.Offer
	}
	if len(list) < tickBatch {
		t.after = probe.Offer{}
	} else {
		t.after = list[len(list)-1]
	}
	if err := t.tick(ctx, list, now); err != nil || !climbing {
		return err
	}
	for _, level := range []ladder.Level{ladder.Watch, ladder.Notice, ladder.Confirm} {
		if err := t.level(ctx, level, now); err != nil {
			return err
		}
	}
	return nil
}

func (t *Ticks) level(ctx context.Context, level ladder.Level, now time.Time) error {
	var after probe.Offer
	for {
		list, err := t.Store.OffersAt(ctx, level, after, tickBatch)
		if err != nil {
			return err
		}
		if err := t.tick(ctx, list, now); err != nil {
			return err
		}
		if len(list) < tickBatch {
			return nil
		}
		after = list[len(list)-1]
	}
}

// tick moves standings. The key names the five minutes, so that two replicas tick once. One
// that fails does not keep the others from it.
func (t *Ticks) tick(ctx context.Context, list []probe.Offer, now time.Time) error {
	key := store.EventKey("tick/" + strconv.FormatInt(now.Unix()/300, 10))
	for _, o := range list {
		if ctx.Err() != nil {
			return nil
		}
		_, err := t.Mover.Move(ctx, o, key, standing.Event{Ticked: &standing.Tick{}})
		warn(ctx, t.Log, "a standing could not be moved on", err)
	}
	return nil
}

// Pairs moves standings by pairs of family F.
type Pairs struct {
	Matcher *pairing.Matcher
	Mover   *Mover
	Clock   clock.Clock
	Log     *slog.Logger
	Haste   Haste
}

// Run looks until ctx ends.
func (p *Pairs) Run(ctx context.Context) {
	for range clock.Every(ctx, p.Haste.Of(pairInterval)) {
		p.Pass(ctx)
	}
}

// Pass moves the standings whose pairs are complete. A pair whose account counted in the day
// already, for whichever replica, moves nothing.
func (p *Pairs) Pass(ctx context.Context) {
	for _, pair := range p.Matcher.Due(p.Clock.Now()) {
		_, err := p.Mover.Move(ctx, pair.Offer, store.EventKey(pair.Key()), standing.Event{
			Paired: &standing.Pair{ProbeFailed: pair.ProbeFailed, OrganicFailed: pair.OrganicFailed}})
		warn(ctx, p.Log, "a pair could not be recorded", err)
	}
}
