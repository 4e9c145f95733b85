package settlement

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/events"
	"svc.internal/services/settlement/internal/penalty"
)

const (
	// penaltyInterval is the pause between two looks for penalties that are due.
	penaltyInterval = 2 * time.Second
	// maxPenaltyBatches bounds the batches of one look. Further ones wait for the next.
	maxPenaltyBatches = 10
)

// penaltyWork executes penalties that are due, and announces every change.
type penaltyWork struct {
	keeper  *penalty.Keeper
	bus     *bus.Conn
	log     *slog.Logger
	metrics *metrics
	still   *clock.Still
}

func newPenaltyWork(store penalty.Store, conn *bus.Conn, log *slog.Logger, m *metrics) *penaltyWork {
	w := &penaltyWork{bus: conn, log: log, metrics: m}
	w.keeper = penalty.NewKeeper(store, w.announce)
	return w
}

// announce publishes the change of a penalty. It is committed, so a message that is lost
// changes nothing.
func (w *penaltyWork) announce(ctx context.Context, p penalty.Penalty) {
	w.log.InfoContext(ctx, "a penalty has another state", "penalty_id", p.ID.String(),
		"provider_id", p.ProviderID.String(), "state", string(p.State), "revision", p.Revision)
	if err := events.PublishPenalty(ctx, w.bus, p); err != nil {
		w.log.WarnContext(ctx, "the change of a penalty was not published", "penalty_id", p.ID.String(), "error", err)
	}
}

// run executes what is due, at every interval until ctx ends.
func (w *penaltyWork) run(ctx context.Context) {
	for range clock.EveryUnless(ctx, penaltyInterval, w.still) {
		w.executeDue(ctx)
	}
}

// executeDue executes what is due now, and measures what is open then.
func (w *penaltyWork) executeDue(ctx context.Context) {
	for range maxPenaltyBatches {
		_, more, err := w.keeper.ExecuteDue(ctx)
		if w.still.Learn(err) != nil && ctx.Err() == nil {
			w.log.ErrorContext(ctx, "penalties that are due could not be executed", "error", err)
		}
		if !more {
			break
		}
	}
	backlog, err := w.keeper.Backlog(ctx)
	if err != nil {
		return // the next look measures
	}
	w.metrics.backlog(ctx, backlog)
}
