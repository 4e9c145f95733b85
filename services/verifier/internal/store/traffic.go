package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/traffic"
)

const keepTraffic = `
INSERT INTO traffic_hour AS h (hour, provider_id, model_id, requests, served, payout_nano_usd)
SELECT u.hour, provider_id, model_id, u.requests, u.served, u.payout
FROM unnest($1::timestamptz[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
	AS u (hour, provider_id, model_id, requests, served, payout) JOIN offering USING (provider_id, model_id)
ORDER BY u.hour, provider_id, model_id
ON CONFLICT (hour, provider_id, model_id) DO UPDATE SET requests = greatest(h.requests, excluded.requests),
	served = greatest(h.served, excluded.served), payout_nano_usd = greatest(h.payout_nano_usd, excluded.payout_nano_usd)
WHERE (h.requests, h.served, h.payout_nano_usd) <> (excluded.requests, excluded.served, excluded.payout_nano_usd)`

// KeepTraffic keeps what a replica has heard of requests, at most MaxBatch hours, each once.
// Every replica hears every attempt or misses it, so that the largest count is the nearest to
// the truth. Offers that were never seen are passed over.
func (s *Store) KeepTraffic(ctx context.Context, list []traffic.Hour) error {
	if len(list) > MaxBatch {
		return fmt.Errorf("%w: %d hours of traffic", ErrBatch, len(list))
	}
	n := len(list)
	hours, providers, models := make([]time.Time, n), make([][16]byte, n), make([]string, n)
	requests, served, payout := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, h := range list {
		hours[i], providers[i], models[i] = h.Begin, h.Offer.Provider, h.Offer.Model
		requests[i], served[i], payout[i] = h.Requests, h.Served, int64(h.Payout)
	}
	if _, err := s.pool.Exec(ctx, keepTraffic, hours, providers, models, requests, served, payout); err != nil {
		return fmt.Errorf("keep %d hours of traffic: %w", n, err)
	}
	return nil
}

// Traffic returns what was kept of the requests of the last week, in the order of hour,
// provider and model, behind an hour of an offer, at most limit.
func (s *Store) Traffic(ctx context.Context, after traffic.Hour, limit int) ([]traffic.Hour, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (h traffic.Hour, err error) {
		var o probe.Offer
		var payout int64
		err = row.Scan(&h.Begin, &o.Provider, &o.Model, &h.Requests, &h.Served, &payout)
		h.Begin, h.Offer, h.Payout = h.Begin.UTC(), o, money.NanoUSD(payout)
		return h, err
	}, `SELECT hour, provider_id, model_id, requests, served, payout_nano_usd FROM traffic_hour
		WHERE hour > clock_timestamp() - interval '7 days' AND (hour, provider_id, model_id) > ($1, $2, $3)
		ORDER BY hour, provider_id, model_id LIMIT $4`,
		after.Begin, [16]byte(after.Offer.Provider), after.Offer.Model, bounded(limit, MaxBatch))
	if err != nil {
		return nil, fmt.Errorf("read the traffic of a week: %w", err)
	}
	return list, nil
}

// ForgetTraffic removes hours that no week holds any more, at most MaxBatch of offers. It
// returns how many.
func (s *Store) ForgetTraffic(ctx context.Context) (int, error) {
	tag, err := s.pool.Exec(ctx, `DELETE FROM traffic_hour WHERE (hour, provider_id, model_id) IN (
		SELECT hour, provider_id, model_id FROM traffic_hour WHERE hour < clock_timestamp() - interval '8 days'
		ORDER BY hour, provider_id, model_id LIMIT $1 FOR UPDATE SKIP LOCKED)`, MaxBatch)
	if err != nil {
		return 0, fmt.Errorf("forget the traffic of old hours: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
