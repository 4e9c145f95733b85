package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/limit"
)

// readRate uses the same clock as admission. Like admission, it ignores a time that is
// further ahead than any limit reaches.
const readRate = `SELECT coalesce(l.requests_per_minute, 0),
	coalesce((extract(epoch FROM coalesce(z.full_at, r.full_at) - now()) * 1000000)::bigint, 0),
	coalesce(l.class_per_minute[$2::integer], 0), coalesce(l.account_per_minute, 0),
	coalesce((SELECT (extract(epoch FROM c.full_at - now()) * 1000000)::bigint FROM account_rate c
		WHERE c.account_id = ck.account_id AND c.class = 10 + $2 AND c.full_at < now() + interval '2 minutes'), 0),
	coalesce((SELECT (extract(epoch FROM a.full_at - now()) * 1000000)::bigint FROM account_rate a
		WHERE a.account_id = ck.account_id AND a.class = 14 AND a.full_at < now() + interval '2 minutes'), 0)
	FROM consumer_key ck
	LEFT JOIN account_limits l ON l.account_id = ck.account_id
	LEFT JOIN key_rate r ON r.key_id = ck.id AND r.class = $2 AND r.full_at > now()
		AND r.full_at < now() + interval '2 minutes'
	LEFT JOIN account_rate z ON z.account_id = ck.account_id AND z.class = $2 AND z.full_at > now()
		AND z.full_at < now() + interval '2 minutes'
	WHERE ck.id = $1`

// ReadRate returns the rest of the rate that leaves a key the least room in a class, from six
// rows by their keys and without a lock. The rate of zero-priced models is the account's.
func (s *Store) ReadRate(ctx context.Context, id ids.KeyID, class limit.Class) (limit.Rate, error) {
	var (
		own                limit.Limits
		category, all      int32
		micros, ahead, far int64
	)
	err := s.pool.QueryRow(ctx, readRate, [16]byte(id), int16(class)).Scan(&own.RequestsPerMinute, &micros, &category, &all,
		&ahead, &far)
	if errors.Is(err, pgx.ErrNoRows) {
		return limit.Rate{}, limit.ErrNoKey
	}
	if err != nil {
		return limit.Rate{}, fmt.Errorf("select rate: %w", err)
	}
	byDefault := s.limits.PerMinute()[class-1]
	if category != 0 {
		byDefault = limit.Unlimited
	}
	left := limit.Left(own.PerMinute(byDefault), time.Duration(micros)*time.Microsecond)
	for _, of := range []struct {
		perMinute int32
		ahead     int64
	}{{category, ahead}, {all, far}} {
		if of.perMinute > 0 {
			left = left.Least(limit.Left(of.perMinute, time.Duration(of.ahead)*time.Microsecond))
		}
	}
	return left, nil
}
