package settlement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/store"
)

// batchWork closes days and months, and posts and signs what they bring.
type batchWork struct {
	interval time.Duration
	store    store.Batches
	closer   *batch.Closer
	months   *batch.Months
	// signer is nil where there is none: statements wait for their signatures.
	signer batch.Signer
	// still leaves out looks for a few seconds while nobody writes. What the ledger seals on another server is seen
	// after them.
	still   *clock.Still
	log     *slog.Logger
	metrics *metrics
}

func newBatchWork(cfg BatchConfig, st store.Batches, deps Deps, m *metrics) (*batchWork, error) {
	start, err := cfg.start()
	if err != nil {
		return nil, fmt.Errorf("read batch.start: %w", err)
	}
	books := peers.Books{Accruals: deps.Accruals, Posting: deps.Posting}
	w := &batchWork{
		interval: cfg.Interval, store: st, log: deps.Log, metrics: m,
		still: clock.Both(clock.WithinMinute(deps.Clock), st.Still(pg.Rest)),
		closer: &batch.Closer{Store: st, Ledger: books, Payees: batch.NoPayees{}, Clock: deps.Clock, Log: deps.Log,
			Start: start, Interval: cfg.Interval, Patience: cfg.Patience},
		months: &batch.Months{Store: st, Ledger: books, Log: deps.Log},
	}
	if deps.Payees != nil {
		w.closer.Payees = peers.Payees{Client: deps.Payees}
	}
	if deps.Signer != nil {
		w.signer = peers.StatementSigner{Client: deps.Signer}
	}
	return w, nil
}

// run works at every interval until ctx ends.
func (w *batchWork) run(ctx context.Context) {
	for range clock.EveryUnless(ctx, w.interval, w.still) {
		_ = w.still.Learn(w.pass(ctx)) // it is logged
	}
}

// pass does what is to be done now. A part that fails keeps no other one waiting; the next pass tries it again.
func (w *batchWork) pass(ctx context.Context) error {
	outcome, batched := w.closer.Pass(ctx, func(day time.Time) error {
		w.log.InfoContext(ctx, "a day is batched", "day", day.Format(time.DateOnly))
		return nil
	})
	w.warn(ctx, "days could not be batched", batched)
	if outcome != batch.Committed && batched == nil {
		w.log.WarnContext(ctx, "a day waits to be batched", "because", string(outcome))
	}
	_, posted := w.closer.Post(ctx)
	w.warn(ctx, "shares could not be posted", posted)
	waiting, closed := w.months.Pass(ctx)
	w.warn(ctx, "months of plans could not be closed", closed)
	var signed error
	if w.signer != nil {
		_, signed = batch.Sign(ctx, w.store, w.signer)
		w.warn(ctx, "statements could not be signed", signed)
	}
	backlog, measured := w.store.Backlog(ctx)
	if measured == nil {
		w.metrics.batched(ctx, backlog, outcome, waiting)
	}
	return errors.Join(batched, posted, closed, signed, measured)
}

func (w *batchWork) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, what, "error", err)
	}
}
