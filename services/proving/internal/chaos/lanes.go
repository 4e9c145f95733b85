package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/fleet"
)

// tries is how often a fault is tried when no request reaches it: a fault of the day at once, and a fault of a night in
// another night.
const tries = 3

// hurt does all faults in their order, as many at once as there are lanes.
func (r *run) hurt(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lanes := newLanes(r.cfg.Lanes)
	var wg sync.WaitGroup
	day, _ := plan.Days(r.faults)
	for _, f := range day {
		lanes.enter(f.Cell)
		if ctx.Err() != nil {
			lanes.leave(f.Cell)
			break
		}
		wg.Go(func() {
			defer lanes.leave(f.Cell)
			if err := r.fault(ctx, f); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// fault does one fault of the day.
func (r *run) fault(ctx context.Context, f plan.Fault) error {
	if f.Cell.Class() == plan.Loss && r.cfg.Plant == "" {
		if err := r.market.calm(ctx); err != nil {
			return err
		}
	}
	for n := range tries {
		err := r.try(ctx, f)
		if !errors.Is(err, errMissed) {
			return err
		}
		r.missed(f, n+1 < tries)
	}
	return nil
}

// try does one fault and records how long the fleet took to serve again. It returns errMissed when no request came to
// the fault's moment.
func (r *run) try(ctx context.Context, f plan.Fault) error {
	var after *after
	var harmed time.Time
	err := r.market.injure(ctx, f, func() { after, harmed = r.watch.begin(f), time.Now() })
	if after != nil {
		defer after.end()
	}
	if err == nil && f.Cell.Kind == plan.Lose && f.Cell.Program == fleet.Hub {
		// Only the gateways know now what this hub served, so they must live until
		// they have reported it.
		err = r.market.wait(ctx, func(ctx context.Context) (int64, error) {
			return r.market.books.Unreported(ctx, harmed.Add(harmSlack))
		})
	}
	if err != nil {
		return err
	}
	took, served := after.wait(ctx)
	r.report.add(f, took, served)
	note := ""
	if !served {
		note = "not served again"
	}
	r.tell("hurting", f.String(), note)
	return nil
}

// missed notes that no request came to the moment of a fault, which is tried again or not.
func (r *run) missed(f plan.Fault, again bool) {
	r.report.miss(f, again)
	note := errMissed.Error()
	if again {
		note += ", and the fault is tried again"
	}
	r.tell("hurting", f.String(), note)
}

// lanes lets several faults be under way at once, but none that hurt the same program,
// and none of classes that must not meet.
type lanes struct {
	mu    sync.Mutex
	moved *sync.Cond
	limit int
	busy  map[string]plan.Class // by key
}

func newLanes(limit int) *lanes {
	l := &lanes{limit: limit, busy: map[string]plan.Class{}}
	l.moved = sync.NewCond(&l.mu)
	return l
}

// enter returns when a fault may be done.
func (l *lanes) enter(c plan.Cell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.freeLocked(c) {
		l.moved.Wait()
	}
	l.busy[c.Key()] = c.Class()
}

func (l *lanes) freeLocked(c plan.Cell) bool {
	if _, same := l.busy[c.Key()]; same || len(l.busy) >= l.limit || c.Kind == plan.Dark && len(l.busy) > 0 {
		return false
	}
	for key, class := range l.busy {
		if key == "" || !class.Meets(c.Class()) {
			return false
		}
	}
	return true
}

func (l *lanes) leave(c plan.Cell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, c.Key())
	l.moved.Broadcast()
}

// calmBound is how long it may take until everything that was served some time ago is
// settled, and calmInterval the pause between two looks.
const (
	calmBound    = time.Minute
	calmInterval = 200 * time.Millisecond
)

// harmSlack is how long after its moment a harm may be done.
const harmSlack = time.Second

// calm returns when everything that was served before is settled, or is still under way.
// Only then may something be lost for good.
func (m *market) calm(ctx context.Context) error {
	var begun time.Time
	return m.wait(ctx, func(ctx context.Context) (_ int64, err error) {
		if begun.IsZero() {
			// Reports that an earlier loss has delayed count however young they are.
			if begun, err = m.books.Now(ctx); err != nil {
				return 0, err
			}
		}
		return m.books.Waiting(ctx, calmAge, begun)
	})
}

// wait returns when nothing is left, or when that takes too long. In that case the audit
// finds out.
func (m *market) wait(ctx context.Context, left func(context.Context) (int64, error)) error {
	ctx, cancel := context.WithTimeout(ctx, calmBound)
	defer cancel()
	ticker := time.NewTicker(calmInterval)
	defer ticker.Stop()
	for {
		if n, err := left(ctx); err == nil && n == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil
			}
			return ctx.Err()
		}
	}
}

// calmAge is the age from which an open hold does not belong to a request that is still
// served, because no answer of package caller takes longer.
const calmAge = 9 * time.Second
