package store

import (
	"context"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/acts/acttable"
)

// actTable is the table of what operators did. Triggers alone write it, because each act stands in
// the history of what it changes (function enter_operator_action).
var actTable = acttable.Table{Subject: "subject"}

// Acts implements acts.Store.
func (s *Store) Acts(ctx context.Context, f acts.Filter) ([]acts.Act, error) {
	return actTable.Find(ctx, s.pool, f)
}
