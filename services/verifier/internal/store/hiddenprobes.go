package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/verifier/internal/probe"
)

// HiddenProbe is a hidden probe that was carried out.
type HiddenProbe struct {
	ID      probe.ID
	Offer   probe.Offer
	Kind    probe.Kind
	EndedAt time.Time
}

// HiddenProbes returns hidden probes that were carried out, in the order of their ids,
// behind a probe, at most limit.
func (s *Store) HiddenProbes(ctx context.Context, after probe.ID, limit int) ([]HiddenProbe, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (p HiddenProbe, err error) {
		err = row.Scan(&p.ID, &p.Offer.Provider, &p.Offer.Model, &p.Kind, &p.EndedAt)
		p.EndedAt = p.EndedAt.UTC()
		return p, err
	}, `SELECT probe_id, provider_id, model_id, kind, ended_at FROM probe
		WHERE flow = 'hidden' AND state = 'done' AND probe_id > $1 ORDER BY probe_id LIMIT $2`,
		[16]byte(after), bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("list hidden probes: %w", err)
	}
	return list, nil
}
