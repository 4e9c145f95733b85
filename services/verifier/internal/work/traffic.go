package work

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/traffic"
)

const (
	// trafficInterval is the pause between two records of traffic: so much is lost of it
	// where the only replica is killed.
	trafficInterval = 10 * time.Minute
	// maxForgetting bounds the batches of old hours that one look removes. A look every ten
	// minutes removes more than the 100,000 offers that are counted can add.
	maxForgetting = 50
)

// Traffic keeps what the requests of offers were, and begins with what was kept.
type Traffic struct {
	Store   *store.Store
	Counter *traffic.Counter
	Clock   clock.Clock
	Log     *slog.Logger
	Haste   Haste

	mu sync.Mutex
	// loaded is set once all was read; until then after is the last that was.
	loaded bool
	after  traffic.Hour
	// kept is from which hour on counts may not be kept yet. Earlier ones were read, or are of
	// a time before this process.
	kept time.Time
}

// Load reads what was kept until this hour, behind what an earlier call has read. What is
// counted already stays: it happened since the process began.
func (k *Traffic) Load(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept.IsZero() {
		k.kept = k.Clock.Now().Truncate(time.Hour)
	}
	for !k.loaded {
		list, err := k.Store.Traffic(ctx, k.after, store.MaxBatch)
		if err != nil {
			return err
		}
		for _, h := range list {
			if !h.Begin.After(k.kept) { // later hours this process has heard itself
				k.Counter.Add(h, k.Clock.Now())
			}
			k.after = h
		}
		k.loaded = len(list) < store.MaxBatch
	}
	return nil
}

// Run keeps traffic until ctx ends, and then once more.
func (k *Traffic) Run(ctx context.Context) {
	for range clock.Every(ctx, k.Haste.Of(trafficInterval)) {
		warn(ctx, k.Log, "traffic could not be kept, and will be", k.Keep(ctx))
	}
	rec, cancel := later(ctx)
	defer cancel()
	warn(rec, k.Log, "the last traffic could not be kept", k.Keep(rec))
}

// Keep keeps what was counted since the hour in which it was kept last, and forgets what is
// too old. Before all was loaded it keeps nothing, because it would read its own counts.
func (k *Traffic) Keep(ctx context.Context) error {
	if err := k.Load(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Clock.Now()
	list := k.Counter.Since(k.kept, now)
	for len(list) > 0 {
		n := min(len(list), store.MaxBatch)
		if err := k.Store.KeepTraffic(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	// What is heard late counts in the hour in which it is heard, so earlier hours are done.
	k.kept = now.Truncate(time.Hour)
	for range maxForgetting {
		if n, err := k.Store.ForgetTraffic(ctx); err != nil || n < store.MaxBatch {
			return err
		}
	}
	return nil
}
