package store

import (
	"context"
	"fmt"

	"svc.internal/pkg/actor"
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
	if _, err := s.pool.Exec(ctx, insertAct, actor.OfOperator(ctx), string(warmedUp), model, detail); err != nil {
		return fmt.Errorf("insert the audit entry of %s: %w", warmedUp, err)
	}
	return nil
}

// actTable is the table of what operators did.
var actTable = acttable.Table{Subject: "subject"}

// Acts implements acts.Store.
func (s *Store) Acts(ctx context.Context, f acts.Filter) ([]acts.Act, error) {
	return actTable.Find(ctx, s.pool, f)
}
