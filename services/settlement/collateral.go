package settlement

import (
	"context"
	"log/slog"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/services/settlement/internal/collateral"
	"svc.internal/services/settlement/internal/events"
)

// collateralInterval is the pause between two looks for what the hub was not told.
const collateralInterval = time.Second

// collateralWork tells the hub of collateral.
type collateralWork struct {
	// development is nil without the setting.
	development *collateral.Development
	pass        func(context.Context) (told int, err error)
	bus         *bus.Conn
	log         *slog.Logger
	still       *clock.Still
}

func newCollateralWork(
	development bool, store collateral.Store, hub collateral.Hub, conn *bus.Conn, log *slog.Logger,
) *collateralWork {
	w := &collateralWork{bus: conn, log: log}
	if development {
		w.development = collateral.NewDevelopment(store, hub)
		w.pass = w.development.Pass
	} else {
		w.pass = collateral.NewWithdrawal(store, hub).Pass
	}
	return w
}

// run hears of providers, where they are to be confirmed, and tells the hub, until ctx
// ends.
func (w *collateralWork) run(ctx context.Context) error {
	if w.development != nil {
		w.log.InfoContext(ctx, "development_collateral: every provider counts as having collateral, and nobody holds any")
		stop, err := events.HearProviders(w.bus, w.development.Heard)
		if err != nil {
			return err
		}
		defer func() { _ = stop() }() // it fails on a connection that is closed already
	}
	still := w.still
	if d := w.development; d != nil {
		heard := clock.NewStill(func(context.Context) bool { return !d.Waits() }, nil)
		still = clock.Both(heard, w.still)
	}
	for range clock.EveryUnless(ctx, collateralInterval, still) {
		if _, err := w.pass(ctx); w.still.Learn(err) != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "the hub was not told of all collateral, and will be", "error", err,
				"retry_after", collateral.RetryAfter.String())
		}
	}
	return nil
}
