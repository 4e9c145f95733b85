package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/naming"
	"svc.internal/services/provider-hub/internal/provider"
)

// RecordNames implements naming.Store, in one statement however many lines there are.
// Hubs' clocks differ, so the name with the later time stays.
func (s *Store) RecordNames(ctx context.Context, lines []naming.AnsweredAs) error {
	providers, models, names := make([]ids.ProviderID, len(lines)), make([]string, len(lines)), make([]string, len(lines))
	first, last, answers := make([]time.Time, len(lines)), make([]time.Time, len(lines)), make([]int64, len(lines))
	for i, l := range lines {
		providers[i], models[i], names[i] = l.Provider, l.Model, l.Name
		first[i], last[i], answers[i] = l.First, l.Last, l.Answers
	}
	_, err := s.pool.Exec(ctx, `
		INSERT INTO answered_as AS a (provider_id, model_id, answered_as, first_at, last_at, answers)
		SELECT t.provider_id, t.model_id, t.name, t.first_at, t.last_at, t.answers
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::bigint[])
			AS t (provider_id, model_id, name, first_at, last_at, answers)
		JOIN provider p ON p.provider_id = t.provider_id
		ORDER BY t.provider_id, t.model_id
		ON CONFLICT (provider_id, model_id) DO UPDATE SET
			answered_as = CASE WHEN excluded.last_at >= a.last_at THEN excluded.answered_as ELSE a.answered_as END,
			first_at = least(a.first_at, excluded.first_at), last_at = greatest(a.last_at, excluded.last_at),
			answers = a.answers + excluded.answers`, idTexts(providers), models, names, first, last, answers)
	if err != nil {
		return fmt.Errorf("record the names that engines gave models: %w", err)
	}
	return nil
}

// AnsweredAs implements provider.Store.
func (s *Store) AnsweredAs(
	ctx context.Context, id ids.ProviderID, since time.Time, limit int,
) ([]provider.AnsweredAs, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT model_id, answered_as, first_at, last_at, answers FROM answered_as
		WHERE provider_id = $1 AND last_at >= $2 ORDER BY last_at DESC, model_id LIMIT $3`, id, since, limit)
	if err != nil {
		return nil, fmt.Errorf("read the names that engines gave models: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[provider.AnsweredAs])
	if err != nil {
		return nil, fmt.Errorf("read the names that engines gave models: %w", err)
	}
	return list, nil
}
