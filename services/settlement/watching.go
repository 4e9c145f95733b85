package settlement

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/store"
	"svc.internal/services/settlement/internal/watch"
)

const (
	// minWatchInterval and maxWatchInterval bound the pause between two looks at a chain, which is its block time.
	minWatchInterval = time.Second
	maxWatchInterval = 12 * time.Second
	// maxWindows bounds the windows of one look. Further ones wait for the next.
	maxWindows = 20
	// measureInterval is the pause between two measurements of how far chains are read.
	measureInterval = 15 * time.Second
)

// watchWork follows each chain whose lock this process gets.
type watchWork struct {
	chains []watch.Reader
	cfgs   chain.Configs
	store  store.Watch
	small  func(asset chain.Asset, amount chain.Amount) bool
	log    *slog.Logger
	meters *chainMetrics
}

// run follows all chains until ctx ends.
func (w *watchWork) run(ctx context.Context) {
	var group errgroup.Group
	for _, reader := range w.chains {
		cfg, _ := w.cfgs.Of(reader.ID())
		group.Go(func() error {
			w.follow(ctx, reader, cfg)
			return nil
		})
	}
	if len(w.chains) > 0 {
		for range clock.Every(ctx, measureInterval) {
			w.measure(ctx)
		}
	}
	_ = group.Wait() // no chain returns an error
}

// follow follows one chain whenever this process has its lock.
func (w *watchWork) follow(ctx context.Context, reader watch.Reader, cfg chain.Config) {
	for range clock.Every(ctx, min(max(cfg.BlockTime, minWatchInterval), maxWatchInterval)) {
		held, release, ok, err := w.store.Lock(ctx, cfg.ID)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "the lock of a chain could not be asked for", "chain", cfg.ID.String(), "error", err)
		}
		if !ok {
			continue
		}
		w.hold(ctx, &watch.Watcher{Chain: reader, Store: w.store, Config: cfg, Small: w.small}, held)
		release()
	}
}

// hold follows a chain as long as its lock is held.
func (w *watchWork) hold(ctx context.Context, watcher *watch.Watcher, held func(context.Context) error) {
	id := watcher.Config.ID.String()
	var troubled bool
	for range clock.Every(ctx, min(max(watcher.Config.BlockTime, minWatchInterval), maxWatchInterval)) {
		if err := held(ctx); err != nil {
			w.log.WarnContext(ctx, "the lock of a chain is lost", "chain", id, "error", err)
			return
		}
		err := w.passes(ctx, watcher)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !troubled:
			// The gauge of the time without progress tells of what lasts.
			w.log.WarnContext(ctx, "a chain could not be read", "chain", id, "error", err)
		case err == nil && troubled:
			w.log.InfoContext(ctx, "a chain is read again", "chain", id)
		}
		troubled = err != nil
	}
}

// passes brings a chain to its final block, by a bounded number of windows.
func (w *watchWork) passes(ctx context.Context, watcher *watch.Watcher) error {
	id := watcher.Config.ID.String()
	for range maxWindows {
		r, err := watcher.Pass(ctx)
		if err != nil {
			return err
		}
		if r.Missed > 0 {
			w.log.ErrorContext(ctx, "the second reading of a chain found what the first had not", "chain", id,
				"rows", r.Missed)
			w.meters.missed(ctx, watcher.Config.ID, r.Missed)
		}
		if r.Halted || r.Caught && r.Missed == 0 {
			break
		}
	}
	return watcher.Look(ctx)
}

// measure measures how far each chain is read, whichever process reads it.
func (w *watchWork) measure(ctx context.Context) {
	states, err := w.store.States(ctx)
	if err != nil {
		return // the next measurement
	}
	for _, s := range states {
		w.meters.measured(ctx, s)
		if s.Halt != nil {
			w.log.ErrorContext(ctx, "a chain is halted: a block that was final has another hash", "chain",
				s.Chain.String(), "block", s.Halt.Block, "was", s.Halt.Was.String(), "is", s.Halt.Is.String())
		}
	}
}
