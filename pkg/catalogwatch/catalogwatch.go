// Package catalogwatch keeps a service up to date with the catalog's models.
//
// The catalog pushes all of its models whenever one has changed. Services start in any
// order and streams break, so the watch restarts for ever. The pause before a restart
// grows from 0.2 to 10 seconds and is random in its upper half, so that the replicas of a
// fleet do not return together. While the catalog is away, a service keeps the last
// models that it received.
package catalogwatch

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// Bounds of the pause before a watch restarts.
const (
	MinPause = 200 * time.Millisecond
	MaxPause = 10 * time.Second
)

// MaxModels bounds the models of a catalog.
const MaxModels = 10_000

// Run passes each snapshot of the catalog's models to keep, one at a time, until ctx
// ends. keep owns the models.
func Run(
	ctx context.Context, client catalogv1.CatalogServiceClient, log *slog.Logger,
	keep func(context.Context, []*catalogv1.Model),
) {
	// Until the first snapshot, readiness reports that the catalog is away.
	level := slog.LevelDebug
	for failures := 0; ctx.Err() == nil; {
		heard, err := watch(ctx, client, keep)
		if ctx.Err() != nil {
			return
		}
		if failures++; heard {
			failures, level = 1, slog.LevelWarn
		}
		wait := pause(failures)
		log.Log(ctx, level, "the catalog cannot be watched; the watch is begun again", "error", err, "pause", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// pause returns the pause after so many failures in a row.
func pause(failures int) time.Duration {
	d := min(MinPause<<min(failures-1, 10), MaxPause)
	return d/2 + rand.N(d/2) //nolint:gosec // spreads load, guards nothing
}

// watch follows one stream to its end. It reports whether a snapshot arrived.
func watch(
	ctx context.Context, client catalogv1.CatalogServiceClient, keep func(context.Context, []*catalogv1.Model),
) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the stream ends with the context
	stream, err := client.WatchModels(ctx, &catalogv1.WatchModelsRequest{})
	if err != nil {
		return false, fmt.Errorf("watch models: %w", err)
	}
	for {
		snapshot, err := stream.Recv()
		if err != nil {
			return heard, fmt.Errorf("receive models: %w", err)
		}
		if n := len(snapshot.GetModels()); n > MaxModels {
			return heard, fmt.Errorf("the catalog sent %d models, more than %d", n, MaxModels)
		}
		keep(ctx, snapshot.GetModels())
		heard = true
	}
}
