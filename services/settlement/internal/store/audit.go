package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/audit"
)

// check recomputes one invariant from the rows.
type check struct {
	name string
	run  func(ctx context.Context, tx pgx.Tx, found *audit.Invariant) error
}

// checks are all invariants that verify recomputes, in the order of its report. A domain adds its own list.
func checks() []check {
	return slices.Concat(batchChecks(), depositChecks(), collateralChecks(), payoutChecks())
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

// bySQL checks by two statements: one counts the rows that are looked at, and one describes each that breaks the rule.
func bySQL(name, count, drift string) check {
	return check{name, func(ctx context.Context, tx pgx.Tx, found *audit.Invariant) error {
		if err := tx.QueryRow(ctx, count).Scan(&found.Checked); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, drift)
		if err != nil {
			return err
		}
		var text string
		_, err = pgx.ForEachRow(rows, []any{&text}, func() error {
			found.Found("%s", text)
			return nil
		})
		return err
	}}
}
