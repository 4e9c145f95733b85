package settlement

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/store"
)

// Report is what a verification found.
type Report = audit.Report

// Verify recomputes every invariant of settlement from the rows in db, on one view of them.
func Verify(ctx context.Context, db *pgxpool.Pool) (audit.Report, error) {
	return store.New(db).Audit(ctx)
}
