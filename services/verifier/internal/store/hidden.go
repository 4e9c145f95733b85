package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/probe"
)

// HiddenDays is how many days back the hidden probes of a provider are told by day.
const HiddenDays = 30

// HiddenDay counts the hidden probes of a UTC day, model and kind.
type HiddenDay struct {
	Day   time.Time
	Model string
	Kind  probe.Kind
	// Done of the Probes were carried out; the others are void.
	Probes, Done int
}

// HiddenByDay returns the hidden probes of a provider that ended before a moment, at most
// HiddenDays days back, by UTC day, model and kind: the last day first, behind a place (the
// zero value for the first), at most limit.
func (s *Store) HiddenByDay(
	ctx context.Context, provider ids.ProviderID, before time.Time, behind HiddenDay, limit int,
) ([]HiddenDay, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (d HiddenDay, err error) {
		err = row.Scan(&d.Day, &d.Model, &d.Kind, &d.Probes, &d.Done)
		return d, err
	}, `SELECT day, model_id, kind, probes, done FROM (
			SELECT (ended_at AT TIME ZONE 'UTC')::date AS day, model_id, kind, count(*) AS probes,
				count(*) FILTER (WHERE state = 'done') AS done
			FROM probe WHERE provider_id = $1 AND flow = 'hidden' AND purpose = 'evidence' AND ended_at < $2
				AND ended_at >= $2 - make_interval(days => $6)
			GROUP BY 1, 2, 3) AS days
		WHERE $3::date IS NULL OR day < $3 OR day = $3 AND (model_id, kind) > ($4, $5)
		ORDER BY day DESC, model_id, kind LIMIT $7`,
		provider, before, timeOrNull(behind.Day), behind.Model, behind.Kind, HiddenDays, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the hidden probes of a provider by day: %w", err)
	}
	return list, nil
}
