package store

import (
	"context"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/acttable"
	"svc.internal/pkg/ids"
)

// AddWarmUp implements provider.Store.
func (s *Store) AddWarmUp(ctx context.Context, model string, id ids.ProviderID) error {
	detail := map[string]any{}
	if !id.IsZero() {
		detail["provider_id"] = id.String()
	}
	return addAct(ctx, s.pool, warmedUp, model, detail)
}

// actTable is the table of what operators did.
var actTable = acttable.Table{Subject: "subject"}

// Acts implements acts.Store.
func (s *Store) Acts(ctx context.Context, f acts.Filter) ([]acts.Act, error) {
	return actTable.Find(ctx, s.pool, f)
}
