package billingledger

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/billing-ledger/internal/store"
)

// Rows that are kept only for a time are pruned each pruneInterval, in at most
// pruneBatches transactions of pruneBatch rows for each kind: more than can arrive
// meanwhile.
const (
	pruneInterval = 15 * time.Second
	// pruneRest is the longest pause, while nobody writes.
	pruneRest    = 4 * pruneInterval
	pruneBatch   = 500
	pruneBatches = 100
)

// pruner deletes rows that are kept only for a time, in batches, so that no transaction
// is long and nobody waits for one. Rows that it does not reach wait for the next
// interval, and count for nobody meanwhile.
type pruner struct {
	// batch bounds the rows of one transaction, and batches the transactions of one step
	// at each interval.
	interval       time.Duration
	batch, batches int
	steps          []pruneStep
	log            *slog.Logger
}

// pruneStep deletes up to limit expired rows of one kind, and returns how many.
type pruneStep struct {
	name  string
	do    func(ctx context.Context, limit int) (int, error)
	still *clock.Still
}

// newPruner makes the pruner of the service's store.
func newPruner(st *store.Store, retentionDays int, log *slog.Logger) *pruner {
	return &pruner{interval: pruneInterval, batch: pruneBatch, batches: pruneBatches, log: log,
		steps: []pruneStep{
			{"claims of idempotency keys", st.PruneClaims, st.Due(store.ExpiredClaims)},
			{"kept answers", func(ctx context.Context, _ int) (int, error) { return st.SweepKept(ctx) },
				st.Still(pruneRest)},
			{"requests of cleared days", func(ctx context.Context, limit int) (int, error) {
				return st.DropCleared(ctx, retentionDays, limit)
			}, st.Still(pruneRest)},
			{"visitors", st.PruneVisitors, st.Due(store.ExpiredVisitors)},
			{"sessions of visitors", st.PruneVisitorSessions, st.Due(store.ExpiredVisitorSessions)},
			{"sessions", st.PruneSessions, st.Due(store.ExpiredSessions)},
			{"session families", st.PruneFamilies, st.Due(store.ExpiredFamilies)},
			{"tokens of letters", st.PruneLetterTokens, st.Due(store.ExpiredLetterTokens)},
			{"letters", st.PruneLetters, st.Due(store.ExpiredLetters)},
			{"used proofs", st.PruneProofs, st.Due(store.ExpiredProofs)},
			{"attempts to sign in", st.PruneAttempts, st.Due(store.ExpiredAttempts)},
			{"known networks", st.PruneNetworks, st.Due(store.ExpiredNetworks)},
			{"events of accounts", st.PruneAccountEvents, st.Due(store.ExpiredAccountEvents)},
			{"sessions of operators", st.PruneOperatorSessions, st.Due(store.ExpiredOperatorSessions)},
			{"sums of requests", st.PruneStats, st.Due(store.ExpiredStats)},
			{"enterprise contacts", st.PruneContacts, st.Due(store.ExpiredContacts)},
		}}
}

// run prunes at every interval until ctx ends.
func (p *pruner) run(ctx context.Context) {
	for range clock.Every(ctx, p.interval) {
		p.tick(ctx)
	}
}

// tick is what run does at every interval. A step that fails stops no other.
func (p *pruner) tick(ctx context.Context) {
	for _, step := range p.steps {
		if step.still.Holds(ctx) {
			continue
		}
		if err := step.still.Learn(p.take(ctx, step)); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "what is over could not be pruned", "step", step.name, "error", err)
		}
	}
}

func (p *pruner) take(ctx context.Context, step pruneStep) error {
	for range p.batches {
		if n, err := step.do(ctx, p.batch); err != nil || n < p.batch {
			return err
		}
	}
	return nil
}
