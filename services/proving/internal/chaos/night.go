package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/services/proving/internal/chaos/plan"
)

// batchedBound is how long settlement may take to batch a day and to post its shares.
const batchedBound = 90 * time.Second

// aNight is how many faults a night has at most.
const aNight = 10

// nights does the faults of a day's end and of payouts, some a night, each at another moment.
func (r *run) nights(ctx context.Context) error {
	_, faults := plan.Days(r.faults)
	if len(faults) == 0 {
		return nil
	}
	if r.market.paying == nil {
		r.report.NoChain = true
		faults = slices.DeleteFunc(faults, func(f plan.Fault) bool { return f.Cell.Chain })
	}
	r.report.note(r.market.leave(ctx))
	todo := agenda{left: faults, tried: map[int]int{}}
	for len(todo.left) > 0 {
		tonight := todo.night()
		missed, err := r.night(ctx, tonight)
		if err != nil {
			return fmt.Errorf("the night of %v: %w", tonight, err)
		}
		for _, f := range missed {
			r.missed(f, todo.again(f))
		}
	}
	return nil
}

// agenda has the faults that nights are still to do, and how often each was tried, by number.
type agenda struct {
	left  []plan.Fault
	tried map[int]int
}

// night takes the faults of the next night.
func (a *agenda) night() (tonight []plan.Fault) {
	tonight, a.left = gather(a.left)
	for _, f := range tonight {
		a.tried[f.Number]++
	}
	return tonight
}

// again puts back a fault that missed its moment, and reports whether it comes in another night.
func (a *agenda) again(f plan.Fault) bool {
	if a.tried[f.Number] >= tries {
		return false
	}
	a.left = append(a.left, f)
	return true
}

// gather takes the faults of one night, which stand at different moments: those of the moments at which most are left,
// so that there are few nights.
func gather(faults []plan.Fault) (tonight, rest []plan.Fault) {
	left := map[string]int{}
	var points []string
	for _, f := range faults {
		if left[f.Cell.Point]++; left[f.Cell.Point] == 1 {
			points = append(points, f.Cell.Point)
		}
	}
	slices.SortStableFunc(points, func(a, b string) int { return cmp.Compare(left[b], left[a]) })
	chosen := points[:min(len(points), aNight)]
	for _, f := range faults {
		if i := slices.Index(chosen, f.Cell.Point); i >= 0 {
			chosen = slices.Delete(chosen, i, i+1)
			tonight = append(tonight, f)
		} else {
			rest = append(rest, f)
		}
	}
	return tonight, rest
}

// night ends a day: nothing is under way then, since a hold that was open would be a day too old at once. The faults
// are done beside the day's end, with the load of the next day. Only a database is set back when all others are over.
// It returns the faults to whose moments nothing came.
func (r *run) night(ctx context.Context, faults []plan.Fault) (missed []plan.Fault, err error) {
	r.report.note(r.market.penalize(ctx))
	if err := r.earn(ctx); err != nil {
		return nil, err
	}
	r.stopLoad()
	r.report.note(r.market.escrowed(ctx))
	if err := r.idle(ctx); err != nil {
		return nil, err
	}
	now, err := r.market.books.Now(ctx)
	if err != nil {
		return nil, err
	}
	back, faults := setsBack(faults)
	r.market.over = make(chan struct{})
	type outcome struct {
		of  plan.Fault
		err error
	}
	ended := make(chan outcome, len(faults))
	for _, f := range faults {
		go func() { ended <- outcome{f, r.try(ctx, f)} }()
	}
	r.tell("ending "+now.UTC().Format(time.DateOnly), "", "")
	err = r.market.nextDay(ctx, devclock.NextDay(now))
	r.startLoad()
	if err == nil {
		err = errors.Join(r.batched(ctx), r.keep(ctx, back), r.pay(ctx))
	}
	close(r.market.over)
	conclude := func(f plan.Fault, fault error) {
		if errors.Is(fault, errMissed) {
			missed = append(missed, f)
		} else {
			err = errors.Join(err, fault)
		}
	}
	for range faults {
		one := <-ended
		conclude(one.of, one.err)
	}
	for _, f := range back {
		if err == nil {
			conclude(f, r.try(ctx, f))
		}
	}
	return missed, err
}

// setsBack takes the faults of a night that set settlement's database back: at most one, because they stand at one
// moment.
func setsBack(faults []plan.Fault) (back, others []plan.Fault) {
	for _, f := range faults {
		if f.Cell.Kind == plan.Back {
			back = append(back, f)
		} else {
			others = append(others, f)
		}
	}
	return back, others
}

// keep copies settlement's database for a fault that sets it back: once the day is batched, what penalties take is
// taken, and no call is under way. Nobody has asked for a payout of the night then.
func (r *run) keep(ctx context.Context, back []plan.Fault) error {
	if len(back) == 0 || r.market.paying == nil {
		return nil
	}
	r.tell("copying settlement", "", "")
	err := r.market.until(ctx, "calls have ended before settlement is copied", r.market.books.Underway)
	if err == nil {
		err = r.market.books.Keep(ctx)
	}
	r.market.kept = err == nil
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.report.note(err)
	return nil
}

// earnedBound is how long providers may take to earn a payout.
const earnedBound = 30 * time.Second

// earn returns when every provider of gold has earned a payout, where payouts are made, or when that takes
// too long: then the cells of payouts say that nothing came to their moments.
func (r *run) earn(ctx context.Context) error {
	if r.market.paying == nil {
		return nil
	}
	r.tell("earning", "", "")
	bounded, cancel := context.WithTimeout(ctx, earnedBound)
	defer cancel()
	err := every(bounded, idleInterval, func() (bool, error) {
		n, err := r.market.books.Earners(bounded, minPayout+minPayout/2)
		return err == nil && n >= len(gold.ids), nil
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// nextDay moves the time of the database, and of the chains. Where there are any, nobody can appeal any more then of
// what was open.
func (m *market) nextDay(ctx context.Context, by time.Duration) error {
	if m.paying == nil {
		_, err := devclock.Advance(ctx, m.fleet.DatabaseURL(), by)
		return err
	}
	by += appealTime
	_, err := devclock.Advance(ctx, m.fleet.DatabaseURL(), by)
	for _, c := range m.paying.All {
		err = errors.Join(err, c.Ahead(ctx, by))
	}
	return err
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
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		r.report.Faulty = append(r.report.Faulty, fmt.Sprintf("days are not batched after %v: %s", batchedBound, left))
		return nil
	}
	return err
}
