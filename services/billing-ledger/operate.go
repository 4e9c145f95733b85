package billingledger

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/seal"
	"svc.internal/services/billing-ledger/internal/store"
)

// sealPoll is the pause between two looks whether a closed day is quiet.
const sealPoll = 100 * time.Millisecond

// SealedDay is a day that was sealed.
type SealedDay = seal.Day

// Seal seals every day in db that has been over for so long, and shows each.
func Seal(ctx context.Context, db *pgxpool.Pool, after time.Duration, each func(SealedDay) error) error {
	sealer := &seal.Sealer{Store: bare(db), After: after, Poll: sealPoll}
	return sealer.Due(ctx, each)
}

// Export writes every row in db, but for the hashes of keys, as lines of JSON,
// from one view of the data. progress hears the table and the rows so far.
func Export(ctx context.Context, db *pgxpool.Pool, out io.Writer, progress func(table string, rows int64)) error {
	return bare(db).Export(ctx, out, progress)
}

// bare is a store that admits nothing.
func bare(db *pgxpool.Pool) *store.Store { return store.New(db, limit.Defaults{}, store.Terms{}) }

// sealer seals days in the background.
func (s *Service) sealer() *seal.Sealer {
	return &seal.Sealer{Store: s.store, Interval: s.cfg.SealInterval, After: s.cfg.SealAfter, Poll: sealPoll,
		Log: s.deps.Log}
}

// reconcile compares a part of the ledger with itself at every interval until
// ctx ends; see store.Reconcile.
func (s *Service) reconcile(ctx context.Context) {
	var place store.Place
	for range clock.Every(ctx, s.cfg.ReconcileInterval) {
		next, drifts, err := s.store.Reconcile(ctx, place, 2*s.cfg.ReconcileInterval)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.deps.Log.WarnContext(ctx, "the ledger could not be compared with itself", "error", err)
			continue
		}
		place = next
		s.drift.Record(ctx, int64(len(drifts)))
		for _, d := range drifts {
			s.deps.Log.LogAttrs(ctx, slog.LevelError, "the ledger drifts", slog.String("invariant", d.Invariant),
				slog.String("drift", d.Text))
		}
	}
}

// tellStandby says aloud at the start that a failover would lose what was settled
// last. On loopback that is how a demo is, and said at info.
func (s *Service) tellStandby(ctx context.Context) {
	standby, err := s.store.SynchronousStandby(ctx)
	switch {
	case err != nil:
		s.deps.Log.WarnContext(ctx, "whether PostgreSQL has a synchronous standby is not known", "error", err)
	case !standby:
		level := slog.LevelWarn
		if pg.OnLoopback(s.deps.DB) {
			level = slog.LevelInfo
		}
		s.deps.Log.Log(ctx, level,
			"PostgreSQL has no synchronous standby: a failover loses what was settled last, because synchronous_standby_names is empty or synchronous_commit is off or local")
	}
}

// newDrift makes the gauge of what reconcile found.
func (s *Service) newDrift() error {
	var err error
	s.drift, err = s.deps.Meters.Meter("svc.internal/services/billing-ledger").Int64Gauge("svc.billing.drift")
	if err != nil {
		return fmt.Errorf("make the gauge of drift: %w", err)
	}
	return nil
}
