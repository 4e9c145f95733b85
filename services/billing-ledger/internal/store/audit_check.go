package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/audit"
)

// check is an invariant that SQL can check. population counts the rows that the rule is
// about, and drift returns one text for each row that breaks it.
type check struct{ name, population, drift string }

// runCheck adds an invariant, and the rows that break it when there is reason to look for
// them.
func runCheck(
	ctx context.Context, tx pgx.Tx, facts *audit.Facts, name string, checked int64, drift string, look bool,
) error {
	i := audit.Invariant{Name: name, Checked: checked}
	if look {
		rows, err := tx.Query(ctx, drift)
		if err != nil {
			return fmt.Errorf("check %q: %w", name, err)
		}
		var example string
		if _, err := pgx.ForEachRow(rows, []any{&example}, func() error {
			i.Found(example)
			return nil
		}); err != nil {
			return fmt.Errorf("check %q: %w", name, err)
		}
	}
	facts.Invariants = append(facts.Invariants, i)
	return nil
}
