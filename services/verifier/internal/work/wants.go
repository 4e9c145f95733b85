package work

import (
	"context"
	"slices"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

const (
	// renewBefore is how long before its end a benchmark is renewed.
	renewBefore = 5 * 24 * time.Hour
	// referenceAway is for how long a model keeps its benchmarks for a reference that is away,
	// and referenceDue for one that nobody has seen yet.
	referenceAway = 24 * time.Hour
	referenceDue  = time.Minute
	// maxPause bounds the pause before a void run is repeated, and maxRow the runs that are
	// looked at for it.
	maxPause = 24 * time.Hour
	maxRow   = 16
)

// wants returns the basis of the run that an offer's standing asks for.
func wants(s standing.State, now time.Time) (bench.Basis, bool) {
	asked := s.Asked.After(s.RunAt)
	if !ladder.MayRun(s.Run, s.LastResult, asked, now.Sub(s.RunAt)) {
		return "", false
	}
	switch {
	case asked:
		return bench.Asked, true
	case s.RunAt.IsZero():
		return bench.First, true
	case s.LastResult == ladder.Spoiled:
		return bench.Again, true
	case s.Run == ladder.Proven && now.Sub(s.PassedAt) >= standing.Fresh-renewBefore:
		return bench.Renewal, true
	default:
		return "", false
	}
}

// awaitsReference reports whether a benchmark waits, because a reference of the model is away
// that may come back, or may be about to connect as the offer did. A model that has none is
// benchmarked without questions of honesty: else nobody could offer it.
func awaitsReference(
	ctx context.Context, s *store.Store, v *offers.View, o probe.Offer, now time.Time,
) (bool, error) {
	if len(v.References(o.Model)) > 0 {
		return false, nil
	}
	seen, err := s.ReferenceSeen(ctx, o.Model)
	if err != nil || now.Sub(seen) < referenceAway {
		return err == nil, err
	}
	offering, err := s.Offering(ctx, o)
	return err == nil && now.Sub(offering.FirstSeen) < referenceDue, err
}

// pauseAfter returns how long after a void run it is repeated: an hour, and twice as long after
// each further one in a row, at most a day. So whoever spoils its runs, by leaving or by
// answers that nobody can use, costs little. A run that the platform disturbed does not
// count. A run that was judged ends the row, and one that was asked for waits for none of it.
func pauseAfter(ctx context.Context, s *store.Store, o probe.Offer) (time.Duration, error) {
	list, err := s.Runs(ctx, o.Provider, o.Model, probe.RunID{}, maxRow)
	if err != nil {
		return 0, err
	}
	pause, first := ladder.AskPause, true
	for _, run := range list {
		switch {
		case run.Basis == store.Traffic, slices.Contains(run.Findings, battery.Disturbed):
			continue
		case run.State != store.RunVoid:
			return pause, nil
		case !first:
			pause = min(2*pause, maxPause)
		}
		first = false
	}
	return pause, nil
}
