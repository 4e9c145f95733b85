package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/offers"
)

const (
	// waivedInterval is the pause before a look at the live view when the view has changed.
	waivedInterval = 50 * time.Millisecond
	// waivedFor is how long a waived benchmark of an active provider is left alone. It counts
	// for 30 days.
	waivedFor = 12 * time.Hour
	// minInactive and maxInactive are the first and the longest pause before a provider that is
	// not active is told of again. Each is twice the one before.
	minInactive = 2 * time.Second
	maxInactive = time.Minute
	// waivedRetry is the pause after a hub that did not take it, and the longest pause between
	// two looks.
	waivedRetry = time.Second
	// maxWaived bounds the providers that are remembered. All are forgotten when there are
	// more: then hubs are told again, which changes nothing.
	maxWaived = 65_536
)

// Reporter tells hubs whether a provider's benchmark counts.
type Reporter interface {
	Benchmark(ctx context.Context, provider ids.ProviderID, passed bool, passedAt time.Time, revision int64,
		reason string) error
}

// Waived is for development, where nobody is asked anything: it tells the hub that the
// benchmark of every connected provider is passed. References need none. The revision is the
// time in microseconds, so it grows over restarts too.
//
// A hub that lets a suspended provider in again, or whose probation it failed, wants a newer
// benchmark, and shows the provider as not active. So providers that are not active are told
// of again, at once when they cease to be, and within a minute otherwise.
//
// A Waived is for one goroutine.
type Waived struct {
	Offers *offers.View
	Hub    Reporter
	Clock  clock.Clock
	Log    *slog.Logger

	told map[ids.ProviderID]waiver
}

// waiver is what a hub was told of a provider.
type waiver struct {
	// active reports whether the provider was active at the last look.
	active bool
	// due is when the hub is told again, and pause lay before the last time that it was told
	// of the provider while that was not active.
	due   time.Time
	pause time.Duration
}

// Run tells hubs until ctx ends.
func (w *Waived) Run(ctx context.Context) {
	w.Log.InfoContext(ctx, "benchmarks_waived: every provider counts as benchmarked, and nobody is asked anything")
	rest := time.NewTimer(waivedInterval)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Offers.Heard():
			if clock.Sleep(ctx, waivedInterval) != nil {
				return
			}
		case <-rest.C:
		}
		warn(ctx, w.Log, "hubs were not told of waived benchmarks, and will be", w.Pass(ctx))
		rest.Reset(clock.ToTick(waivedRetry))
	}
}

// Pass tells hubs of the providers that are connected now and that they were not told of. A
// hub that fails for one provider does not keep the others from it.
func (w *Waived) Pass(ctx context.Context) error {
	if w.told == nil || len(w.told) > maxWaived {
		w.told = map[ids.ProviderID]waiver{}
	}
	active := map[ids.ProviderID]bool{}
	for _, o := range w.Offers.Known() {
		active[o.Provider] = active[o.Provider] || o.Active()
	}
	now := w.Clock.Now()
	var faults []error
	for provider, is := range active {
		said := w.told[provider].seen(is, now)
		if !now.Before(said.due) {
			err := w.Hub.Benchmark(ctx, provider, true, now, now.UnixMicro(), "waived for development")
			said = said.after(err, now)
			faults = append(faults, err)
		}
		w.told[provider] = said
	}
	return errors.Join(faults...)
}

// seen is the waiver once its provider was seen, active or not.
func (w waiver) seen(active bool, now time.Time) waiver {
	switch {
	case w.active && !active:
		w.due, w.pause = now, 0
	case !w.active && active && !w.due.IsZero():
		w.due = now.Add(waivedFor) // the hub has taken what it was told
	}
	w.active = active
	return w
}

// after is the waiver once the hub was told.
func (w waiver) after(err error, now time.Time) waiver {
	switch {
	case err != nil:
		w.due = now.Add(waivedRetry)
	case w.active:
		w.due = now.Add(waivedFor)
	default:
		w.pause = min(max(2*w.pause, minInactive), maxInactive)
		w.due = now.Add(w.pause)
	}
	return w
}
