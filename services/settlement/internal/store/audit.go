package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/audit"
)

// checks are all invariants that verify recomputes, in the order of its report. A domain adds its own list.
func checks() []check {
	return slices.Concat(batchChecks(), depositChecks(), collateralChecks(), payoutChecks(), revaluationChecks())
}

// Audit recomputes every invariant on one view of the data.
func (s *Store) Audit(ctx context.Context) (report audit.Report, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		all := checks()
		found := make([]audit.Invariant, len(all))
		for i, c := range all {
			found[i].Name = c.name
			if err := c.run(ctx, tx, &found[i]); err != nil {
				return fmt.Errorf("check that %s: %w", c.name, err)
			}
		}
		report = audit.NewReport(found)
		return nil
	})
	return report, err
}
