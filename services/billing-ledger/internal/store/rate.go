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
	coalesce((extract(epoch FROM coalesce(z.full_at, r.full_at) - now()) * 1000000)::bigint, 0)
	FROM consumer_key ck
	LEFT JOIN account_limits l ON l.account_id = ck.account_id
	LEFT JOIN key_rate r ON r.key_id = ck.id AND r.class = $2 AND r.full_at > now()
		AND r.full_at < now() + interval '2 minutes'
	LEFT JOIN account_rate z ON z.account_id = ck.account_id AND z.class = $2 AND z.full_at > now()
		AND z.full_at < now() + interval '2 minutes'
	WHERE ck.id = $1`

// ReadRate returns the rest of a key's rate in a class, from four rows by their keys
// and without a lock. The rate of zero-priced models is the account's.
func (s *Store) ReadRate(ctx context.Context, id ids.KeyID, class limit.Class) (limit.Rate, error) {
	var (
		own    limit.Limits
		micros int64
	)
	err := s.pool.QueryRow(ctx, readRate, [16]byte(id), int16(class)).Scan(&own.RequestsPerMinute, &micros)
	if errors.Is(err, pgx.ErrNoRows) {
		return limit.Rate{}, limit.ErrNoKey
	}
	if err != nil {
		return limit.Rate{}, fmt.Errorf("select rate: %w", err)
	}
	return limit.Left(own.PerMinute(s.limits.PerMinute()[class-1]), time.Duration(micros)*time.Microsecond), nil
}
