package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/audit"
)

// check recomputes one invariant from the rows.
type check struct {
	name string
	run  func(ctx context.Context, tx pgx.Tx, found *audit.Invariant) error
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
