package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/seal"
)

// DigestOf is a day's digest of a version.
func (s *Store) DigestOf(ctx context.Context, day time.Time, version int16) (d seal.Day, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		d, err = digest(ctx, tx, day, version)
		return err
	})
	return d, err
}

// SelectRelated reads which accounts of requests and which providers have one owner.
const SelectRelated = selectRelated

// The statements of Store.Settled and Store.FirstSettled.
const (
	SumSettled   = sumSettled
	FirstSettled = firstSettled
)
