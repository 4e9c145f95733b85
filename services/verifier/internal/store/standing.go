package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

// Standing is where an offer stands.
type Standing struct {
	Offer probe.Offer
	Rank  int
	// Number is that of its last event, at MovedAt.
	Number  int64
	MovedAt time.Time
	State   standing.State
	Opinion Opinion
}

// Opinion is what routers are to know of an offer, with its revision.
type Opinion struct {
	Offer     probe.Offer
	Trust     float64
	Lane      trust.Lane
	CapTokens int64
	// GraceUntil and PassedAt are the zero time where there is no grace, and no benchmark
	// that counts.
	GraceUntil, PassedAt time.Time
	// Revision grows with every change of the offer's opinion.
	Revision int64
}

// ErrStanding is the error for an offer of which nothing happened yet.
var ErrStanding = errors.New("the offer has no standing yet")

const (
	opinionColumns  = `s.provider_id, s.model_id, s.trust, s.lane, s.cap_tokens, s.grace_until, s.passed_at, s.revision`
	standingColumns = opinionColumns + `, s.number, s.moved_at, s.state, o.rank`
	standingFrom    = ` FROM standing s JOIN offering o USING (provider_id, model_id) `
)

func (o *Opinion) targets() (list []any, after func()) {
	var grace, passed *time.Time
	return []any{&o.Offer.Provider, &o.Offer.Model, &o.Trust, &o.Lane, &o.CapTokens, &grace, &passed, &o.Revision},
		func() { o.GraceUntil, o.PassedAt = timeOf(grace), timeOf(passed) }
}

func scanOpinion(row pgx.CollectableRow) (o Opinion, err error) {
	to, after := o.targets()
	err = row.Scan(to...)
	after()
	return o, err
}

func scanStanding(row pgx.CollectableRow) (s Standing, err error) {
	var state []byte
	to, after := s.Opinion.targets()
	if err := row.Scan(append(to, &s.Number, &s.MovedAt, &state, &s.Rank)...); err != nil {
		return Standing{}, err
	}
	after()
	s.Offer, s.MovedAt = s.Opinion.Offer, s.MovedAt.UTC()
	return s, s.State.UnmarshalBinary(state)
}

// Standing returns where an offer stands, or ErrStanding.
func (s *Store) Standing(ctx context.Context, o probe.Offer) (Standing, error) {
	list, err := collect(ctx, s.pool, scanStanding, `SELECT `+standingColumns+standingFrom+`
		WHERE s.provider_id = $1 AND s.model_id = $2`, o.Provider, o.Model)
	if err == nil && len(list) == 0 {
		err = ErrStanding
	}
	if err != nil {
		return Standing{}, fmt.Errorf("read the standing of %v: %w", o, err)
	}
	return list[0], nil
}

// Standings returns the standings in the order of provider and model, behind an offer, at
// most limit, those of one level unless it is empty.
func (s *Store) Standings(
	ctx context.Context, level ladder.Level, after probe.Offer, limit int,
) ([]Standing, error) {
	list, err := collect(ctx, s.pool, scanStanding, `SELECT `+standingColumns+standingFrom+`
		WHERE ($1 = '' OR s.level = $1) AND (s.provider_id, s.model_id) > ($2, $3)
		ORDER BY s.provider_id, s.model_id LIMIT $4`, level, [16]byte(after.Provider), after.Model, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list standings: %w", err)
	}
	return list, nil
}

// StandingsOf returns the standings of a provider in the order of models, behind a model, at
// most limit.
func (s *Store) StandingsOf(
	ctx context.Context, provider ids.ProviderID, after string, limit int,
) ([]Standing, error) {
	list, err := collect(ctx, s.pool, scanStanding, `SELECT `+standingColumns+standingFrom+`
		WHERE s.provider_id = $1 AND s.model_id > $2 ORDER BY s.model_id LIMIT $3`,
		provider, after, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the standings of a provider: %w", err)
	}
	return list, nil
}

// OffersAt returns the offers whose ladder is at a level, in the order of provider and model,
// behind an offer, at most limit. It reads no state: one that was altered must not keep
// anybody from the others.
func (s *Store) OffersAt(
	ctx context.Context, level ladder.Level, after probe.Offer, limit int,
) ([]probe.Offer, error) {
	list, err := collect(ctx, s.pool, scanOffer, `SELECT provider_id, model_id FROM standing
		WHERE level = $1 AND (provider_id, model_id) > ($2, $3) ORDER BY provider_id, model_id LIMIT $4`,
		level, [16]byte(after.Provider), after.Model, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the offers of a level: %w", err)
	}
	return list, nil
}

// OffersUnderPenalty returns the offers with a penalty that has not ended, like OffersAt.
func (s *Store) OffersUnderPenalty(ctx context.Context, after probe.Offer, limit int) ([]probe.Offer, error) {
	list, err := collect(ctx, s.pool, scanOffer, `SELECT provider_id, model_id FROM standing
		WHERE open_penalty IS NOT NULL AND (provider_id, model_id) > ($1, $2) ORDER BY provider_id, model_id LIMIT $3`,
		[16]byte(after.Provider), after.Model, bounded(limit, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("list the offers under a penalty: %w", err)
	}
	return list, nil
}

func scanOffer(row pgx.CollectableRow) (o probe.Offer, err error) {
	err = row.Scan(&o.Provider, &o.Model)
	return o, err
}

// Stale returns offers whose standing moved last before a time, the longest ago first, at
// most limit. Time alone may move them.
func (s *Store) Stale(ctx context.Context, before time.Time, limit int) ([]probe.Offer, error) {
	list, err := collect(ctx, s.pool, scanOffer, `SELECT provider_id, model_id FROM standing
		WHERE moved_at < $1 ORDER BY moved_at LIMIT $2`, before, bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("list standings that did not move: %w", err)
	}
	return list, nil
}

// Opinions returns what routers are to know of all offers in the order of provider and
// model, behind an offer, at most limit.
func (s *Store) Opinions(ctx context.Context, after probe.Offer, limit int) ([]Opinion, error) {
	list, err := collect(ctx, s.pool, scanOpinion, `SELECT `+opinionColumns+` FROM standing s
		WHERE (s.provider_id, s.model_id) > ($1, $2) ORDER BY s.provider_id, s.model_id LIMIT $3`,
		[16]byte(after.Provider), after.Model, bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("list what routers are to know: %w", err)
	}
	return list, nil
}

// Levels counts the standings by level.
func (s *Store) Levels(ctx context.Context) (map[ladder.Level]int, error) {
	counts := map[ladder.Level]int{}
	rows, err := s.pool.Query(ctx, `SELECT level, count(*) FROM standing GROUP BY level`)
	if err == nil {
		var level ladder.Level
		var n int
		_, err = pgx.ForEachRow(rows, []any{&level, &n}, func() error {
			counts[level] = n
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("count standings: %w", err)
	}
	return counts, nil
}
