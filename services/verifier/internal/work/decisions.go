package work

import (
	"context"
	"time"

	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
)

// Decisions carry out what people decide.
type Decisions struct {
	Mover        *Mover
	Benchmarks   *Benchmarks
	Calibrations *Calibrations
}

// Approve is an operator's word on a penalty that waits for it. The first word that is not
// held stays, because nothing waits after it.
func (d *Decisions) Approve(
	ctx context.Context, v store.Verdict, operator string, refuse bool,
) (standing.Outcome, error) {
	now, err := d.Mover.Store.Now(ctx)
	if err != nil {
		return standing.Outcome{}, err
	}
	key := store.EventKey("operator/" + v.ID.String() + "/" + now.Format(time.RFC3339Nano))
	return d.Mover.Move(ctx, v.Offer, key, standing.Event{Operator: &standing.Approval{Verdict: v.ID, By: operator,
		Refused: refuse}})
}

// Void voids the observations of an offer since a time.
func (d *Decisions) Void(ctx context.Context, o probe.Offer, operator string, since time.Time, key string) error {
	_, err := d.Mover.Move(ctx, o, store.EventKey("void/"+key), standing.Event{Voided: &standing.Voiding{By: operator,
		Since: since}})
	return err
}

// Calibrate begins a calibration of each stratum of a model that has references.
func (d *Decisions) Calibrate(ctx context.Context, model string) ([]store.CalibrationRun, error) {
	return d.Calibrations.Start(ctx, model)
}

// Benchmark begins a benchmark of an offer, or returns the run that is under way.
func (d *Decisions) Benchmark(ctx context.Context, o probe.Offer) (store.Run, error) {
	return d.Benchmarks.Ask(ctx, o)
}
