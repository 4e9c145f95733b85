package governor

import (
	"context"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// on is a process that has n of all processors, and needs a second of calm.
func on(n, all int) *state { return &state{all: all, procs: n, calm: leastCalm} }

// busy is a load of one period that uses so many processors, without a wait.
func busy(use float64) load { return load{took: period, use: use} }

// waiting is a load of one period that uses little, with waits of which some were long.
func waiting(waits, long uint64) load { return load{took: period, waits: waits, long: long} }

// until plays a load at most n times, and returns after how many of them the processors changed; 0 for
// never.
func until(s *state, n int, l load) int {
	for i := range n {
		if s.look(l) {
			return i + 1
		}
	}
	return 0
}

const second = int(leastCalm / period)

func TestProcessorsWithoutWorkAreHalvedEachSecondToOne(t *testing.T) {
	s := on(8, 8)
	for _, want := range []int{4, 2, 1} {
		if at := until(s, 1000, busy(narrow-0.01)); at != second {
			t.Fatalf("processors taken away: got look %d, want %d", at, second)
		}
		if s.procs != want {
			t.Fatalf("processors: got %d, want %d", s.procs, want)
		}
	}
	if at := until(s, 1000, busy(0)); at != 0 {
		t.Fatalf("look %d changed one processor to %d", at, s.procs)
	}
}

func TestUseThatHalfOfTheProcessorsWouldBarelyBearKeepsAllOfThem(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		if s := on(n, n); until(s, 1000, busy(narrow*float64(n/2))) != 0 {
			t.Errorf("%d processors became %d", n, s.procs)
		}
	}
}

func TestOneBusyLookBeginsTheCalmAnew(t *testing.T) {
	for name, l := range map[string]load{"use": busy(narrow), "waits": waiting(100, 6)} {
		t.Run(name, func(t *testing.T) {
			s := on(2, 2)
			until(s, second-1, busy(0))
			s.look(l)
			if at := until(s, 1000, busy(0)); at != second {
				t.Fatalf("a processor taken away after the busy look: got look %d, want %d", at, second)
			}
		})
	}
}

func TestUseAndLongWaitsGiveAllProcessorsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		load load
		at   int
	}{
		"use below the bound":    {busy(2*widen - 0.01), 0},
		"use at the bound":       {busy(2 * widen), 1},
		"five long waits of 100": {waiting(100, 5), 0},
		"five long waits of 99":  {waiting(99, 5), 1},
		"few waits, all long":    {waiting(few, few), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := on(2, 8)
			s.calm = longestCalm
			if at := until(s, 3, c.load); at != c.at {
				t.Fatalf("processors changed: got look %d, want %d", at, c.at)
			}
			if c.at > 0 && s.procs != s.all {
				t.Fatalf("processors: got %d, want %d", s.procs, s.all)
			}
		})
	}
}

// The same work takes less CPU on fewer processors.
func TestASteadyUseChangesTheProcessorsOnlyDownwards(t *testing.T) {
	for _, saved := range []float64{1, 0.7} {
		for use := 0.0; use < 4; use += 0.01 {
			s := on(4, 4)
			for range 2000 {
				had, now := s.procs, use
				if s.procs < s.all {
					now *= saved
				}
				if s.look(busy(now)) && s.procs > had {
					t.Fatalf("a use of %.2f gave %d processors back", use, s.procs)
				}
			}
		}
	}
}

func TestWhoNeedsItsProcessorsBackSoonKeepsThemLonger(t *testing.T) {
	s := on(2, 2)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		at := until(s, 10_000, busy(0))
		if got := time.Duration(at) * period; got != want*time.Second {
			t.Fatalf("a processor taken away: got after %v, want after %v s", got, int64(want))
		}
		s.look(waiting(10, 10))
	}
	until(s, 10_000, busy(0))
	until(s, int(steady/period), busy(0)) // for long enough
	s.look(waiting(10, 10))
	if at := until(s, 10_000, busy(0)); at != second {
		t.Fatalf("a processor taken away after a long time with one: got look %d, want %d", at, second)
	}
}

func TestTheGovernorFollowsTheUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		from, to := 10*time.Second, 11*time.Second // one processor is busy then
		read := func() (totals, error) {
			return totals{cpu: max(0, min(time.Since(begin), to)-from)}, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var changes []int
		var at []time.Duration
		run(ctx, read, func(n int) int {
			changes, at = append(changes, n), append(at, time.Since(begin))
			return 4
		})
		if !slices.Equal(changes, []int{0, 2, 1, 0, 2, 1}) {
			t.Fatalf("changes: got %v at %v, want [0 2 1 0 2 1]", changes, at)
		}
		if wait := at[3] - from; wait > 2*restPeriod {
			t.Errorf("all processors came %v after the load", wait)
		}
		if wait := at[4] - to; wait < leastCalm || wait > 2*leastCalm+3*restPeriod {
			t.Errorf("half of the processors went %v after the load", wait)
		}
	})
}

func TestTheProcessHasAllItsProcessorsWhenTheGovernorEnds(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	all := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Run(ctx)
	if now := runtime.GOMAXPROCS(0); now != all {
		t.Fatalf("processors at the end: got %d, want %d", now, all)
	}
}

func TestTheOperatorsChoiceOfProcessorsStands(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	Run(context.Background()) // returns at once
}

func TestTheMeterReadsWhatTheProcessDoes(t *testing.T) {
	m, err := newMeter()
	if err != nil {
		t.Skip(err)
	}
	before, err := m.read()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // its wait for a processor is counted, however short
		defer close(done)
		for n := 0; n < 1e6; n++ {
			runtime.KeepAlive(n)
		}
	}()
	<-done
	for {
		now, err := m.read()
		if err != nil {
			t.Fatal(err)
		}
		if now.cpu > before.cpu && now.waits > before.waits {
			return
		}
		runtime.Gosched()
	}
}

func TestOnlyWaitsThatAreSurelyLongCountAsLong(t *testing.T) {
	h := &metrics.Float64Histogram{
		Counts:  []uint64{1, 10, 100, 1000, 10_000},
		Buckets: []float64{0, 0.0001, 0.0009, longWait.Seconds(), 0.1, 1},
	}
	waits, long := count(h)
	if waits != 11_111 {
		t.Errorf("waits: got %d, want 11111", waits)
	}
	if long != 11_000 {
		t.Errorf("long waits: got %d, want 11000", long)
	}
}
