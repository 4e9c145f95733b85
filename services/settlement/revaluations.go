package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/peers"
	"svc.internal/services/settlement/internal/revalue"
	"svc.internal/services/settlement/internal/store"
)

// revaluationInterval is the pause between two looks for coins that are not valued today.
const revaluationInterval = 30 * time.Second

// revaluationWork brings the coins that the books have to the rate of the day. Without any chain it does nothing.
type revaluationWork struct {
	revaluer *revalue.Revaluer
	log      *slog.Logger
	behind   metric.Int64Gauge
}

func newRevaluationWork(st *store.Store, reads *chainWork, deps Deps) (*revaluationWork, error) {
	w := &revaluationWork{log: deps.Log, revaluer: &revalue.Revaluer{
		Chains: reads.deposits.chains, Store: store.Revaluations{Store: st}, Quotes: reads.quotes, Log: deps.Log,
		Books: peers.CoinBooks{Posting: deps.Posting, Balances: deps.Balances},
	}}
	var err error
	if w.behind, err = deps.Meters.Meter("svc.internal/services/settlement").Int64Gauge(
		"svc.settlement.revaluation_days_behind", metric.WithDescription(
			"How many days ago a coin that the books have was last valued at the rate of the day.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return w, nil
}

// run looks at once and at every interval until ctx ends.
func (w *revaluationWork) run(ctx context.Context) {
	if len(w.revaluer.Chains) == 0 {
		return
	}
	w.pass(ctx)
	for range clock.Every(ctx, revaluationInterval) {
		w.pass(ctx)
	}
}

func (w *revaluationWork) pass(ctx context.Context) {
	behind, err := w.revaluer.Pass(ctx)
	if err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, "coins could not be revalued", "error", err)
	}
	for id, days := range behind {
		w.behind.Record(ctx, int64(days), ofChain(id))
	}
}
