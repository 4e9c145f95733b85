package store

import (
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/provider-hub/internal/provider"
)

// suspension is a row of provider_suspension as the database writes it in JSON.
type suspension struct {
	Cause    string     `json:"cause"`
	Since    *time.Time `json:"since"`
	Reason   string     `json:"reason"`
	Revision int64      `json:"revision"`
}

// suspensions reads the causes that this program knows.
func suspensions(rows []suspension) (all provider.Suspensions) {
	for _, r := range rows {
		if s := all.Of(provider.Cause(r.Cause)); s != nil {
			*s = provider.Suspension{Since: zero(r.Since).UTC(), Reason: r.Reason, Revision: r.Revision}
		}
	}
	return all
}

// keepSuspensions queues the causes that changed. They are written before the status that
// follows from them.
func keepSuspensions(b *pgx.Batch, a *provider.Account, before provider.Suspensions) {
	for i, cause := range provider.Causes() {
		is := a.Suspensions[i]
		if is == before[i] {
			continue
		}
		b.Queue(`
			INSERT INTO provider_suspension AS s (provider_id, cause, since, reason, revision) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (provider_id, cause) DO UPDATE
				SET since = excluded.since, reason = excluded.reason, revision = excluded.revision`,
			a.ID, cause, null(is.Since), is.Reason, is.Revision)
	}
}
