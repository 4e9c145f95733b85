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
// report none, and which models vendors alone may serve. The router serves without it: while
// it is late, a provider that reports no window is taken to hold any prompt.
type Catalog struct {
	client catalogv1.CatalogServiceClient
	log    *slog.Logger
	models atomic.Pointer[map[string]model]
}

type model struct {
	window  int64
	gateway bool
}

// NewCatalog makes a view that knows nothing until Run is called.
func NewCatalog(client catalogv1.CatalogServiceClient, log *slog.Logger) *Catalog {
	return &Catalog{client: client, log: log}
}

// Window is the catalog's window of a model in tokens; 0 when it is not known.
func (c *Catalog) Window(id string) int64 { return c.model(id).window }

// Gateway reports whether a model is a gateway model, which vendors alone may serve; false
// when it is not known.
func (c *Catalog) Gateway(id string) bool { return c.model(id).gateway }

func (c *Catalog) model(id string) model {
	if all := c.models.Load(); all != nil {
		return (*all)[id]
	}
	return model{}
}

// Known reports whether the catalog has been heard at all.
func (c *Catalog) Known() bool { return c.models.Load() != nil }

// Run watches the catalog until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	catalogwatch.Run(ctx, c.client, c.log, func(_ context.Context, models []*catalogv1.Model) {
		all := make(map[string]model, len(models))
		for _, m := range models {
			all[m.GetModelId()] = model{m.GetContextLength(), m.GetKind() == catalogv1.Kind_KIND_GATEWAY}
		}
		c.models.Store(&all)
	})
}
