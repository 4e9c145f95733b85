package slot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func load(t *testing.T, c *Counter, now time.Time, wantLoad, wantLimit int) {
	t.Helper()
	if l, limit := c.Usage(now); l != wantLoad {
		t.Errorf("load: got %d, want %d", l, wantLoad)
	} else if limit != wantLimit {
		t.Errorf("load: limit: got %d, want %d", limit, wantLimit)
	}
}

func TestABookingIsCountedOnceWhateverTheReportsSay(t *testing.T) {
	c := NewPool().Counter()
	c.Report(4, 0, start)
	c.Book("a", start)
	load(t, c, start, 1, 4)
	c.Report(4, 0, start.Add(settling)) // too early to have seen it
	load(t, c, start, 1, 4)
	c.Report(4, 1, start.Add(time.Second))
	load(t, c, start, 1, 4)
	c.End("a", start, start.Add(2*time.Second))
	load(t, c, start, 0, 4)
	c.End("a", start, start.Add(2*time.Second)) // the event arrives twice
	load(t, c, start, 0, 4)
}

func TestABookingThatAReportCountedJustAfterItLeavesNothingBehind(t *testing.T) {
	c := NewPool().Counter()
	c.Report(1, 0, start.Add(-time.Second))
	c.Book("a", start)
	c.Report(1, 1, start.Add(settling/2)) // the hub had it already
	c.End("a", start.Add(settling/4), start.Add(time.Second))
	load(t, c, start.Add(time.Second), 0, 1)
	if !c.Book("b", start.Add(time.Second)) {
		t.Error("the slot of a request that has ended is still taken")
	}
}

// The report no longer counts the short attempt, whose end is heard after it:
// what the report does count is left alone.
func TestAnAttemptThatEndedBeforeTheReportTakesNothingOffIt(t *testing.T) {
	c := NewPool().Counter()
	c.Report(2, 1, start.Add(-time.Second)) // a request that goes on
	c.Book("short", start)
	c.Report(2, 1, start.Add(45*time.Millisecond))
	now := start.Add(60 * time.Millisecond)
	c.End("short", now.Add(-30*time.Millisecond), now)
	load(t, c, now, 1, 2)
}

// TestShortAttemptsNeverLowerTheLoadOfOthers lets short attempts begin and end
// around reports, beside some that go on, with random delays of all messages.
func TestShortAttemptsNeverLowerTheLoadOfOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	type attempt struct{ booked, began, ended, heard time.Time }
	for round := range 300 {
		c, going := NewPool().Counter(), random.IntN(4)
		events := map[time.Duration]func(now time.Time){} // by the moment, which is unique
		at := func(when time.Time, do func(time.Time)) {
			d := when.Sub(start)
			for events[d] != nil {
				d++
			}
			events[d] = do
		}
		var attempts []*attempt
		booked, caught := 0, 0 // whose end is not heard of; that the last report counted
		for n := range 30 {
			a := &attempt{booked: start.Add(time.Millisecond + upTo(2*time.Second))}
			a.began = a.booked.Add(upTo(settling / 8))
			a.ended = a.began.Add(upTo(settling / 2))
			a.heard = a.ended.Add(upTo(settling / 4))
			attempts = append(attempts, a)
			at(a.booked, func(now time.Time) {
				booked++
				c.Book(fmt.Sprint(n), now)
			})
			at(a.heard, func(now time.Time) {
				booked--
				c.End(fmt.Sprint(n), now.Add(-a.ended.Sub(a.began)), now)
			})
		}
		report := func(made time.Time) {
			counted := 0
			for _, a := range attempts {
				if !made.Before(a.began) && made.Before(a.ended) {
					counted++
				}
			}
			at(made.Add(upTo(settling/4)), func(now time.Time) {
				caught = counted
				c.Report(100, going+counted, now)
			})
		}
		c.Report(100, going, start)
		for n := range 6 {
			report(start.Add(time.Duration(n)*400*time.Millisecond + upTo(100*time.Millisecond)))
		}
		for _, d := range slices.Sorted(maps.Keys(events)) {
			now := start.Add(d)
			events[d](now)
			if l, _ := c.Usage(now); l < going+booked || l > going+booked+caught {
				t.Fatalf("round %d, %v: load %d with %d that go on, %d booked, %d caught by the report: got %d, want %d to %d",
					round, d, l, going, booked, caught, l, going+booked, going+booked+caught)
			}
		}
		end := start.Add(time.Minute)
		c.Report(100, going, end)
		load(t, c, end, going, 100)
	}
}

func TestAnAbandonedBookingWeighsUntilTheNextReport(t *testing.T) {
	c := NewPool().Counter()
	c.Report(1, 0, start)
	if !c.Book("a", start) {
		t.Fatal(`one slot must serve one request: c.Book("a", start): got false, want true`)
	}
	if c.Book("b", start) {
		t.Fatal(`one slot must serve one request: c.Book("b", start): got true, want false`)
	}
	c.Report(1, 0, start.Add(time.Second))
	if !c.Book("b", start.Add(time.Second)) {
		t.Error("the slot of an abandoned booking is still taken")
	}
}

func TestTheSameRequestBooksOneSlot(t *testing.T) {
	c := NewPool().Counter()
	c.Report(2, 0, start)
	c.Book("a", start)
	c.Book("a", start)
	load(t, c, start, 1, 2)
}

func TestAttemptsOfOtherRoutersLowerTheReportThatCountedThem(t *testing.T) {
	c := NewPool().Counter()
	c.Report(4, 2, start)
	c.End("foreign", start.Add(time.Second), start.Add(2*time.Second)) // began after the report
	load(t, c, start, 2, 4)
	c.End("foreign", start.Add(-time.Second), start.Add(2*time.Second))
	load(t, c, start, 1, 4)
}

func TestBookingsExpireAndAreBounded(t *testing.T) {
	c := NewPool().Counter()
	c.Report(1<<30, 0, start)
	for i := range MaxBookings + 10 {
		c.Book(fmt.Sprint(i), start)
	}
	load(t, c, start, MaxBookings, MaxCapacity)
	if n := c.Expire(start.Add(MaxAge - 1)); n != 0 {
		t.Errorf("bookings expired early: got %d, want 0", n)
	}
	if n := c.Expire(start.Add(MaxAge)); n != MaxBookings {
		t.Errorf("got %d bookings expired, want all", n)
	}
	load(t, c, start.Add(MaxAge), 0, MaxCapacity)
}

func TestLoadNeverGoesBelowZeroNorBookingsAboveTheLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c, now := NewPool().Counter(), start
	for step := range 20_000 {
		now = now.Add(time.Duration(random.IntN(200)) * time.Millisecond)
		id := fmt.Sprint(random.IntN(20))
		switch random.IntN(5) {
		case 0:
			c.Report(random.IntN(12)-1, random.IntN(8)-1, now)
		case 1, 2:
			before, limit := c.Usage(now)
			if c.Book(id, now); before > limit {
				if after, _ := c.Usage(now); after > before {
					t.Fatalf("step %d: booked above the limit: got %d, want at most %d", step, after, before)
				}
			}
		case 3:
			c.End(id, now.Add(-time.Duration(random.IntN(1000))*time.Millisecond), now)
		case 4:
			c.Busy(now)
		}
		if l, limit := c.Usage(now); l < 0 {
			t.Fatalf("step %d: load: got %d, want at least 0", step, l)
		} else if limit < 1 {
			t.Fatalf("step %d: load: limit: got %d, want at least 1", step, limit)
		}
	}
}

func TestConcurrentBookingsNeverOverbook(t *testing.T) {
	c := NewPool().Counter()
	c.Report(50, 0, start)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				if c.Book(fmt.Sprintf("%d-%d", g, i), start) {
					mu.Lock()
					got++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if got != 50 {
		t.Errorf("bookings on 50 slots: got %d, want 50", got)
	}
}
