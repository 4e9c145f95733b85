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
	still          clock.Still
}

// pruneStep deletes up to limit expired rows of one kind, and returns how many.
type pruneStep struct {
	name string
	do   func(ctx context.Context, limit int) (int, error)
}

// newPruner makes the pruner of the service's store.
func newPruner(st *store.Store, retentionDays int, log *slog.Logger) *pruner {
	return &pruner{interval: pruneInterval, batch: pruneBatch, batches: pruneBatches, log: log, still: st.Still(pruneRest),
		steps: []pruneStep{
			{"claims of idempotency keys", st.PruneClaims},
			{"kept answers", func(ctx context.Context, _ int) (int, error) { return st.SweepKept(ctx) }},
			{"requests of cleared days", func(ctx context.Context, limit int) (int, error) {
				return st.DropCleared(ctx, retentionDays, limit)
			}},
			{"visitors", st.PruneVisitors},
			{"sessions of visitors", st.PruneVisitorSessions},
			{"sessions", st.PruneSessions},
			{"session families", st.PruneFamilies},
			{"tokens of letters", st.PruneLetterTokens},
			{"letters", st.PruneLetters},
			{"used proofs", st.PruneProofs},
			{"attempts to sign in", st.PruneAttempts},
			{"known networks", st.PruneNetworks},
			{"events of accounts", st.PruneAccountEvents},
			{"sessions of operators", st.PruneOperatorSessions},
			{"sums of requests", st.PruneStats},
			{"enterprise contacts", st.PruneContacts},
		}}
}

// run prunes at every interval until ctx ends.
func (p *pruner) run(ctx context.Context) {
	for range clock.EveryUnless(ctx, p.interval, p.still) {
		p.tick(ctx)
	}
}

// tick is what run does at every interval. A step that fails stops no other.
func (p *pruner) tick(ctx context.Context) {
	for _, step := range p.steps {
		if err := p.take(ctx, step); err != nil && ctx.Err() == nil {
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
