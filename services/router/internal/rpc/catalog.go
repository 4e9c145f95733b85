package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// Pauses between two tries to watch the catalog.
const (
	leastPause = 250 * time.Millisecond
	mostPause  = 5 * time.Second
)

// Catalog keeps the context windows of the catalog's models, for providers that
// report none. The router serves without it: while it is late, a provider that
// reports no window is taken to hold any prompt.
type Catalog struct {
	client  catalogv1.CatalogServiceClient
	log     *slog.Logger
	windows atomic.Pointer[map[string]int64]
}

// NewCatalog makes a view that knows nothing until Run is called.
func NewCatalog(client catalogv1.CatalogServiceClient, log *slog.Logger) *Catalog {
	return &Catalog{client: client, log: log}
}

// Window is the catalog's window of a model in tokens; 0 when it is not known.
func (c *Catalog) Window(model string) int64 {
	if w := c.windows.Load(); w != nil {
		return (*w)[model]
	}
	return 0
}

// Known tells whether the catalog has been heard at all.
func (c *Catalog) Known() bool { return c.windows.Load() != nil }

// Run watches the catalog until ctx ends, however often the stream breaks.
func (c *Catalog) Run(ctx context.Context) {
	pause := leastPause
	for ctx.Err() == nil {
		heard, err := c.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			pause = leastPause
		}
		c.log.DebugContext(ctx, "the catalog's stream ended; it is opened again", "error", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(pause*2, mostPause)
	}
}

func (c *Catalog) watch(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.WatchModels(ctx, &catalogv1.WatchModelsRequest{})
	if err != nil {
		return false, fmt.Errorf("watch the catalog: %w", err)
	}
	for {
		msg, err := stream.Recv()
		if err != nil {
			return heard, fmt.Errorf("watch the catalog: %w", err)
		}
		heard = true
		windows := make(map[string]int64, len(msg.GetModels()))
		for _, m := range msg.GetModels() {
			windows[m.GetModelId()] = m.GetContextLength()
		}
		c.windows.Store(&windows)
	}
}
