// Package peers asks the services that the router depends on: the catalog for models
// and provider-hub for providers.
package peers

import (
	"context"
	"log/slog"
	"sync/atomic"

	"svc.internal/pkg/catalogwatch"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
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

// Known reports whether the catalog has been heard at all.
func (c *Catalog) Known() bool { return c.windows.Load() != nil }

// Run watches the catalog until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	catalogwatch.Run(ctx, c.client, c.log, func(_ context.Context, models []*catalogv1.Model) {
		windows := make(map[string]int64, len(models))
		for _, m := range models {
			windows[m.GetModelId()] = m.GetContextLength()
		}
		c.windows.Store(&windows)
	})
}
