package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/quant"
)

// Reference is a host that serves a model as a reference.
type Reference struct {
	Model string
	// Host is the reference's provider and node.
	Host                      string
	Provider                  ids.ProviderID
	Class                     quant.Class
	Engine, GPU, FileRevision string
	FirstSeen, SeenAt         time.Time
}

const upsertReference = `
INSERT INTO reference AS r (model_id, host, provider_id, class, engine, gpu, file_revision) VALUES ($1, $2, $3,
	$4, $5, $6, $7)
ON CONFLICT (model_id, host) DO UPDATE SET provider_id = excluded.provider_id, class = excluded.class,
	engine = excluded.engine, gpu = excluded.gpu, file_revision = excluded.file_revision, seen_at = clock_timestamp()
WHERE r.seen_at < clock_timestamp() - interval '5 minutes' OR (r.provider_id, r.class, r.engine, r.gpu,
	r.file_revision)
	<> (excluded.provider_id, excluded.class, excluded.engine, excluded.gpu, excluded.file_revision)`

// SeeReferences records the references that are connected now.
func (s *Store) SeeReferences(ctx context.Context, seen []Reference) error {
	if len(seen) > MaxBatch {
		return fmt.Errorf("%w: %d references", ErrBatch, len(seen))
	}
	batch := &pgx.Batch{}
	for _, r := range seen {
		batch.Queue(upsertReference, r.Model, r.Host, r.Provider, int16(r.Class), r.Engine, r.GPU, r.FileRevision)
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("record %d references: %w", len(seen), err)
	}
	return nil
}

// ReferenceSeen returns when a reference of a model was seen last, the zero time where none
// ever was.
func (s *Store) ReferenceSeen(ctx context.Context, model string) (time.Time, error) {
	var at *time.Time
	err := s.pool.QueryRow(ctx, `SELECT max(seen_at) FROM reference WHERE model_id = $1`, model).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("find the references of a model: %w", err)
	}
	return timeOf(at), nil
}

// References returns the references that were ever seen, in the order of model and host,
// behind after, at most limit.
func (s *Store) References(ctx context.Context, after Reference, limit int) ([]Reference, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (r Reference, err error) {
		var class int16
		err = row.Scan(&r.Model, &r.Host, &r.Provider, &class, &r.Engine, &r.GPU, &r.FileRevision, &r.FirstSeen, &r.SeenAt)
		r.Class, r.FirstSeen, r.SeenAt = quant.Class(class), r.FirstSeen.UTC(), r.SeenAt.UTC()
		return r, err
	}, `SELECT model_id, host, provider_id, class, engine, gpu, file_revision, first_seen, seen_at FROM reference
		WHERE (model_id, host) > ($1, $2) ORDER BY model_id, host LIMIT
			$3`, after.Model, after.Host, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	return list, nil
}
