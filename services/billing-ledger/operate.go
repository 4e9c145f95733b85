package billingledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/entries"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/seal"
	"svc.internal/services/billing-ledger/internal/store"
)

// sealPoll is the pause between two looks whether a closed day has no open transaction
// any more.
const sealPoll = 100 * time.Millisecond

// SealedDay is a sealed day.
type SealedDay = seal.Day

// Seal seals every day in db that has been over for at least after, and calls each for
// each of them.
func Seal(ctx context.Context, db *pgxpool.Pool, after time.Duration, each func(SealedDay) error) error {
	sealer := &seal.Sealer{Store: bare(db), After: after, Poll: sealPoll}
	return sealer.Due(ctx, each)
}

// Export writes every row in db as lines of JSON, from one view of the data and without
// secrets; see store.Export. progress gets the table and the number of rows so far.
func Export(ctx context.Context, db *pgxpool.Pool, out io.Writer, progress func(table string, rows int64)) error {
	return bare(db).Export(ctx, out, progress)
}

// CardAlarm is something about a card payment for a person to look at.
type CardAlarm = card.Alarm

// CardAlarms lists the alarms of card payments in db that nobody has closed, the oldest
// first, at most 1,000.
func CardAlarms(ctx context.Context, db *pgxpool.Pool) ([]CardAlarm, error) {
	return store.Cards{Store: bare(db)}.Alarms(ctx, card.MaxListed)
}

// CloseCardAlarm closes an alarm of card payments in db under a person's name. It reports
// whether there was one to close.
func CloseCardAlarm(ctx context.Context, db *pgxpool.Pool, reason, object, by string) (bool, error) {
	return store.Cards{Store: bare(db)}.CloseAlarm(ctx, card.AlarmReason(reason), object, by)
}

// Peppers are the peppers of the hashes in the service's schema.
var Peppers = store.Peppers

// bare returns a store that admits nothing.
func bare(db *pgxpool.Pool) *store.Store { return store.New(db, limit.Defaults{}, store.Terms{}) }

// sealer returns the sealer that runs in the background.
func (s *Service) sealer() *seal.Sealer {
	return &seal.Sealer{Store: s.store, Interval: s.cfg.SealInterval, After: s.cfg.SealAfter, Poll: sealPoll,
		Log: s.deps.Log, Still: s.store.DueSeal(s.cfg.SealAfter)}
}

// reconcile compares a part of the ledger with itself at every interval until ctx ends:
// the open holds, the next 2,000 wallets and what was recorded lately. See
// store.Reconcile.
func (s *Service) reconcile(ctx context.Context) {
	s.compared.Add(ctx, 0) // so that a ledger that never compares itself shows that, and not nothing
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
		s.compared.Add(ctx, 1)
		s.lastCompared.Add(store.Rules(2*s.cfg.ReconcileInterval), entries.Comparison{At: s.deps.Clock.Now(),
			Drift: byRule(drifts), Last: next == store.Place{}})
		for _, d := range drifts {
			s.deps.Log.LogAttrs(ctx, slog.LevelError, "the ledger drifts", slog.String("invariant", d.Invariant),
				slog.String("drift", d.Text))
		}
	}
}

// byRule counts the rows that a comparison found, by the name of the rule that they break.
func byRule(drifts []store.Drift) map[string]int {
	of := map[string]int{}
	for _, d := range drifts {
		of[d.Invariant]++
	}
	return of
}

// tellStandby warns at the start that a failover would lose what was settled last, when
// there is no synchronous standby. On loopback, where demos run, it logs that at info.
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
			"PostgreSQL has no synchronous standby: a failover loses what was settled last, because synchronous_standby_names "+
				"is empty or synchronous_commit is off or local")
	}
}

// newDrift makes the gauge svc.billing.drift: the rows that the last comparison found to
// break an invariant, 0 for a sound ledger. svc.billing.comparisons counts the comparisons
// that ended, because a gauge that nobody sets stays at its last value.
func (s *Service) newDrift() error {
	meter := s.deps.Meters.Meter("svc.internal/services/billing-ledger")
	var errs [2]error
	s.drift, errs[0] = meter.Int64Gauge("svc.billing.drift",
		metric.WithDescription("Rows that the last comparison of the ledger with itself found to break an invariant."))
	s.compared, errs[1] = meter.Int64Counter("svc.billing.comparisons",
		metric.WithDescription("Comparisons of the ledger with itself that ended."))
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("make the instruments of drift: %w", err)
	}
	return nil
}
