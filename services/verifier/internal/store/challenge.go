package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/probe"
)

// Challenge is a probe that has ended, for its provider.
type Challenge struct {
	Probe   probe.ID
	Model   string
	Kind    probe.Kind
	Flow    probe.Flow
	Purpose probe.Purpose
	State   ProbeState
	EndedAt time.Time
	// Judged reports whether it said something, of so many families, of which so many
	// exceeded.
	Judged             bool
	Observed, Exceeded int
	// Leaf identifies the bytes of its evidence; zero where it was not judged.
	Leaf archive.Leaf
}

// ChallengeCursor is the place behind a Challenge. The zero value is before the first.
type ChallengeCursor struct {
	EndedAt time.Time
	Probe   probe.ID
}

// Cursor returns the place behind c.
func (c Challenge) Cursor() ChallengeCursor { return ChallengeCursor{c.EndedAt, c.Probe} }

// Challenges returns the probes of a provider that have ended, the last first, behind a
// place, at most limit. Hidden ones are listed only if they ended before hiddenBefore,
// because whoever could see a request end here would know it for a probe.
func (s *Store) Challenges(
	ctx context.Context, provider ids.ProviderID, hiddenBefore time.Time, behind ChallengeCursor, limit int,
) ([]Challenge, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (c Challenge, err error) {
		var leaf []byte
		err = row.Scan(&c.Probe, &c.Model, &c.Kind, &c.Flow, &c.Purpose, &c.State, &c.EndedAt, &c.Judged, &leaf, &c.Observed,
			&c.Exceeded)
		copy(c.Leaf[:], leaf)
		c.EndedAt = c.EndedAt.UTC()
		return c, err
	}, `SELECT p.probe_id, p.model_id, p.kind, p.flow, p.purpose, p.state, p.ended_at, e.number IS NOT NULL, v.leaf,
			b.observed, b.exceeded
		FROM probe p LEFT JOIN event e USING (probe_id)
		LEFT JOIN evidence v ON v.provider_id = e.provider_id AND v.model_id = e.model_id AND v.number = e.number,
			LATERAL (SELECT count(*) AS observed, count(*) FILTER (WHERE exceeded) AS exceeded
				FROM observation b WHERE b.probe_id = p.probe_id) AS b
		WHERE p.provider_id = $1 AND p.ended_at IS NOT NULL AND (p.flow = 'visible' OR p.ended_at < $2)
			AND ($3::timestamptz IS NULL OR (p.ended_at, p.probe_id) < ($3, $4))
		ORDER BY p.ended_at DESC, p.probe_id DESC LIMIT $5`,
		provider, hiddenBefore, timeOrNull(behind.EndedAt), behind.Probe, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the challenges of a provider: %w", err)
	}
	return list, nil
}
