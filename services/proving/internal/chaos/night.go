package chaos

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/proving/internal/chaos/plan"
)

// batchedBound is how long settlement may take to batch a day and to post its shares.
const batchedBound = 90 * time.Second

// nights does the faults of a day's end, one a night. A run with any of them ends one more day, without a fault, so that
// everything that was served is batched.
func (r *run) nights(ctx context.Context) error {
	_, faults := plan.Days(r.faults)
	if len(faults) == 0 {
		return nil
	}
	for _, f := range faults {
		if err := r.night(ctx, func(ended chan<- error) { ended <- r.fault(ctx, f) }); err != nil {
			return fmt.Errorf("%v: %w", f, err)
		}
	}
	return r.night(ctx, func(ended chan<- error) { ended <- nil })
}

// night ends a day: nothing is under way then, since a hold that was open would be a day too old at once. meanwhile runs
// beside the day's end and with the load of the next day.
func (r *run) night(ctx context.Context, meanwhile func(ended chan<- error)) error {
	r.stopLoad()
	if err := r.idle(ctx); err != nil {
		return err
	}
	now, err := r.market.books.Now(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go meanwhile(ended)
	r.tell("ending "+now.UTC().Format(time.DateOnly), "", "")
	_, err = devclock.Advance(ctx, r.market.fleet.DatabaseURL(), devclock.NextDay(now))
	r.startLoad()
	if err != nil {
		<-ended
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	return r.batched(ctx)
}

// batched returns when every day that is over is batched and posted. What it waits for in vain is in the report. As an
// operator it lets a day go of which many lines came from the ledger: faults lose usage on purpose.
func (r *run) batched(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, batchedBound)
	defer cancel()
	left := "nobody has looked"
	err := every(ctx, idleInterval, func() (bool, error) {
		waiting, err := r.market.books.Unbatched(ctx)
		if err != nil {
			left = err.Error()
			return false, nil // a database that restarts answers later
		}
		for _, day := range waiting.Filled {
			body := object{"reason": "usage was lost on purpose"}
			if err := r.market.fleet.Admin(ctx, http.MethodPost, "batches/"+day+"/allow", body, nil); err != nil {
				left = err.Error()
			}
		}
		left = waiting.String()
		return waiting.None(), nil
	})
	r.report.Nights = append(r.report.Nights, time.Since(began))
	if err != nil && context.Cause(ctx) == context.DeadlineExceeded {
		r.report.Faulty = append(r.report.Faulty, fmt.Sprintf("days are not batched after %v: %s", batchedBound, left))
		return nil
	}
	return err
}
