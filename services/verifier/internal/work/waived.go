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
	// waivedInterval is the pause between two looks at the live view. It is short, because
	// tests wait for a provider to become active.
	waivedInterval = 50 * time.Millisecond
	// waivedFor is how long a waived benchmark is left alone. It counts for 30 days.
	waivedFor = 12 * time.Hour
	// waivedRetry is the pause after a hub that did not take it.
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
// A Waived is for one goroutine.
type Waived struct {
	Offers *offers.View
	Hub    Reporter
	Clock  clock.Clock
	Log    *slog.Logger

	// due is when a provider's hub is told again.
	due map[ids.ProviderID]time.Time
}

// Run tells hubs until ctx ends.
func (w *Waived) Run(ctx context.Context) {
	w.Log.InfoContext(ctx, "benchmarks_waived: every provider counts as benchmarked, and nobody is asked anything")
	for range clock.Every(ctx, waivedInterval) {
		warn(ctx, w.Log, "hubs were not told of waived benchmarks, and will be", w.Pass(ctx))
	}
}

// Pass tells hubs of the providers that are connected now and that they were not told of. A
// hub that fails for one provider does not keep the others from it.
func (w *Waived) Pass(ctx context.Context) error {
	if w.due == nil || len(w.due) > maxWaived {
		w.due = map[ids.ProviderID]time.Time{}
	}
	now := w.Clock.Now()
	var faults []error
	for _, o := range w.Offers.Known() {
		if now.Before(w.due[o.Provider]) {
			continue
		}
		err := w.Hub.Benchmark(ctx, o.Provider, true, now, now.UnixMicro(), "waived for development")
		if err != nil {
			faults = append(faults, err)
			w.due[o.Provider] = now.Add(waivedRetry)
			continue
		}
		w.due[o.Provider] = now.Add(waivedFor)
	}
	return errors.Join(faults...)
}
