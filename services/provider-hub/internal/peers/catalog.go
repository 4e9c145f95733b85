// Package peers watches the catalog, from which a hub learns the kinds of models.
package peers

import (
	"context"
	"log/slog"

	"svc.internal/pkg/catalogwatch"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/provider-hub/internal/kinds"
)

// WatchKinds keeps models up to date with the catalog until ctx ends.
func WatchKinds(ctx context.Context, client catalogv1.CatalogServiceClient, models *kinds.Models, log *slog.Logger) {
	catalogwatch.Run(ctx, client, log, func(_ context.Context, list []*catalogv1.Model) {
		gateway := make(map[string]bool, len(list))
		for _, m := range list {
			gateway[m.GetModelId()] = m.GetKind() == catalogv1.Kind_KIND_GATEWAY
		}
		models.Set(gateway)
	})
}
