package hold

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
)

// pile is how many holds are over.
type pile struct {
	mu      sync.Mutex
	over    int
	fail    bool
	looks   int
	expired int
}

// put arranges the pile and forgets the looks.
func (p *pile) put(over int, fail bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.fail, p.looks = over, fail, 0
}

func (p *pile) seen() (looks, expired int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks, p.expired
}

func (p *pile) ExpireHolds(_ context.Context, _ time.Time, limit int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	if p.fail {
		p.fail = false
		return 0, errors.New("down")
	}
	n := min(p.over, limit)
	p.over -= n
	p.expired += n
	return n, nil
}

func TestHoldsExpireOnlyAfterUsageCouldArriveForTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var stalled atomic.Int64
		ready := func(context.Context) (time.Time, error) {
			<-time.After(time.Duration(stalled.Swap(0)))
			if away.Load() {
				return time.Time{}, errors.New("away")
			}
			return time.Now(), nil
		}
		p := &pile{over: 25}
		e := &Expirer{
			Interval: time.Second, Batch: 10, Grace: time.Minute, Ready: ready,
			Steps: []Step{{Name: "expire", Do: p.ExpireHolds}},
			Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		}
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { e.Run(ctx) })
		pass := func(d time.Duration) (looks, expired int) {
			<-time.After(d)
			synctest.Wait()
			return p.seen()
		}
		if looks, _ := pass(59500 * time.Millisecond); looks != 0 {
			t.Errorf("looks within the grace after the start: got %d, want 0", looks)
		}
		if looks, expired := pass(time.Second); expired != 25 {
			t.Errorf("expired: got %d, want 25", expired)
		} else if looks != 3 {
			t.Errorf("looks: got %d, want 3", looks)
		}
		away.Store(true)
		p.put(5, false)
		pass(10 * time.Minute)
		away.Store(false)
		if looks, _ := pass(58 * time.Second); looks != 0 {
			t.Errorf("looks while usage could not arrive, or within the grace after: got %d, want 0", looks)
		}
		p.put(5, true)
		if looks, expired := pass(58 * time.Second); looks != 1 {
			t.Errorf("%d looks and %d expired within the grace after a failed look: looks: got %d, want 1", looks, expired,
				looks)
		} else if expired != 25 {
			t.Errorf("%d looks and %d expired within the grace after a failed look: expired: got %d, want 25", looks, expired,
				expired)
		}
		if _, expired := pass(8 * time.Second); expired != 30 {
			t.Errorf("got %d expired after a failed look, want 30", expired)
		}
		// A store that stood still knows nothing of it, and fails nobody.
		p.put(5, false)
		stalled.Store(int64(8 * time.Second))
		if _, expired := pass(66 * time.Second); expired != 30 {
			t.Errorf("expired while the store stood still, or within the grace after: got %d, want 30", expired)
		}
		if _, expired := pass(4 * time.Second); expired != 35 {
			t.Errorf("got %d expired after that, want 35", expired)
		}
		stop()
		run.Wait()
	})
}

// moved is a clock that the test moves.
type moved struct{ now *time.Time }

func (m moved) Now() time.Time { return *m.now }

func TestAServiceThatStoodStillWaitsForTheGrace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &pile{over: 5}
	e := &Expirer{
		Interval: time.Second, Batch: 10, Grace: 10 * time.Second, Steps: []Step{{Name: "expire", Do: p.ExpireHolds}},
		Ready: func(context.Context) (time.Time, error) { return now, nil },
		Clock: moved{&now}, Log: slog.New(slog.DiscardHandler),
	}
	tick := func(d time.Duration) (expired int) {
		now = now.Add(d)
		e.Tick(t.Context())
		_, expired = p.seen()
		return expired
	}
	tick(0)
	for range 9 {
		if tick(time.Second) != 0 {
			t.Fatal("expired within the grace")
		}
	}
	if tick(8*time.Second) != 0 {
		t.Error("expired right after a standstill")
	}
	for range 9 {
		if tick(time.Second) != 0 {
			t.Fatal("expired within the grace after a standstill")
		}
	}
	if n := tick(time.Second); n != 5 {
		t.Errorf("got %d expired after the grace, want 5", n)
	}
}
