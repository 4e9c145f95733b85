package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
)

// PutHour adds what was planned for an offer in an hour, with its past from then on. Of two
// replicas that plan the same hour one adds its probes; the other is told false.
func (s *Store) PutHour(ctx context.Context, h plan.Hour, probes ...QueuedProbe) (planned bool, err error) {
	past, err := h.Past.Form()
	if err != nil {
		return false, err
	}
	err = s.put(ctx, putting{allow: func(tx pgx.Tx) (bool, error) {
		var err error
		planned, err = exec(ctx, tx, `INSERT INTO planned AS p (provider_id, model_id, hour, past) VALUES ($1, $2, $3, $4)
			ON CONFLICT (provider_id, model_id) DO UPDATE SET hour = excluded.hour, past = excluded.past
			WHERE p.hour < excluded.hour`, h.Offer.Provider, h.Offer.Model, h.Past.Hour, past)
		crash.At("verifier.hour.before_commit")
		return planned, err
	}}, probes)
	crash.At("verifier.hour.committed")
	return planned && err == nil, err
}

// OfferPast is the past of an offer.
type OfferPast struct {
	Offer probe.Offer
	Past  plan.Past
	// Fault is why the past cannot be read; Past is zero then.
	Fault error
}

// Pasts returns the pasts of offers in the order of provider and model, behind an offer, at
// most limit. One that was altered keeps nobody from the others.
func (s *Store) Pasts(ctx context.Context, after probe.Offer, limit int) ([]OfferPast, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (p OfferPast, err error) {
		var form []byte
		if err := row.Scan(&p.Offer.Provider, &p.Offer.Model, &form); err != nil {
			return OfferPast{}, err
		}
		if p.Past, err = plan.ReadPast(form); err != nil {
			p.Fault = fmt.Errorf("the past of %v: %w", p.Offer, err)
		}
		return p, nil
	}, `SELECT provider_id, model_id, past FROM planned WHERE (provider_id, model_id) > ($1, $2)
		ORDER BY provider_id, model_id LIMIT $3`, [16]byte(after.Provider), after.Model, bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("read what was planned: %w", err)
	}
	return list, nil
}

// EventOf returns the offer and the number of the event that a probe was judged by. It
// reports false where there is none.
func (s *Store) EventOf(ctx context.Context, id probe.ID) (o probe.Offer, number int64, found bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT provider_id, model_id, number FROM event WHERE probe_id = $1`, id).
		Scan(&o.Provider, &o.Model, &number)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return probe.Offer{}, 0, false, nil
	case err != nil:
		return probe.Offer{}, 0, false, fmt.Errorf("find the event of a probe: %w", err)
	}
	return o, number, true, nil
}
