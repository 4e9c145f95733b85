package slot

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func load(t *testing.T, c *Counter, now time.Time, wantLoad, wantLimit int) {
	t.Helper()
	if l, limit := c.Usage(now); l != wantLoad || limit != wantLimit {
		t.Errorf("load %d of %d, want %d of %d", l, limit, wantLoad, wantLimit)
	}
}

func TestABookingIsCountedOnceWhateverTheReportsSay(t *testing.T) {
	c := New()
	c.Report(4, 0, start)
	c.Book("a", start)
	load(t, c, start, 1, 4)
	c.Report(4, 0, start.Add(settling)) // too early to have seen it
	load(t, c, start, 1, 4)
	c.Report(4, 1, start.Add(time.Second))
	load(t, c, start, 1, 4)
	c.End("a", start)
	load(t, c, start, 0, 4)
	c.End("a", start) // the event arrives twice
	load(t, c, start, 0, 4)
}

func TestABookingThatAReportCountedJustAfterItLeavesNothingBehind(t *testing.T) {
	c := New()
	c.Report(1, 0, start.Add(-time.Second))
	c.Book("a", start)
	c.Report(1, 1, start.Add(settling/2)) // the hub had it already
	c.End("a", start.Add(settling/4))
	load(t, c, start.Add(time.Second), 0, 1)
	if !c.Book("b", start.Add(time.Second)) {
		t.Error("the slot of a request that has ended is still taken")
	}
}

func TestAnAbandonedBookingWeighsUntilTheNextReport(t *testing.T) {
	c := New()
	c.Report(1, 0, start)
	if !c.Book("a", start) || c.Book("b", start) {
		t.Fatal("one slot must serve one request")
	}
	c.Report(1, 0, start.Add(time.Second))
	if !c.Book("b", start.Add(time.Second)) {
		t.Error("the slot of an abandoned booking is still taken")
	}
}

func TestTheSameRequestBooksOneSlot(t *testing.T) {
	c := New()
	c.Report(2, 0, start)
	c.Book("a", start)
	c.Book("a", start)
	load(t, c, start, 1, 2)
}

func TestAttemptsOfOtherRoutersLowerTheReportThatCountedThem(t *testing.T) {
	c := New()
	c.Report(4, 2, start)
	c.End("foreign", start.Add(time.Second)) // began after the report
	load(t, c, start, 2, 4)
	c.End("foreign", start.Add(-time.Second))
	load(t, c, start, 1, 4)
}

func TestRefusalsLowerCapacityAndTimeRestoresIt(t *testing.T) {
	c := New()
	c.Report(8, 0, start)
	c.Busy(start)
	c.Busy(start.Add(busyPause / 2)) // the same burst
	load(t, c, start, 0, 6)
	load(t, c, start.Add(RegainEvery), 0, 7)
	load(t, c, start.Add(time.Hour), 0, 8)
	for i := range 100 {
		c.Busy(start.Add(time.Hour + time.Duration(i)*busyPause))
	}
	if _, limit := c.Usage(start.Add(time.Hour + 100*busyPause)); limit < 1 || limit > 2 {
		t.Errorf("limit %d after a hundred refusals", limit)
	}
}

func TestBookingsExpireAndAreBounded(t *testing.T) {
	c := New()
	c.Report(1<<30, 0, start)
	for i := range MaxBookings + 10 {
		c.Book(fmt.Sprint(i), start)
	}
	load(t, c, start, MaxBookings, MaxCapacity)
	if n := c.Expire(start.Add(MaxAge - 1)); n != 0 {
		t.Errorf("%d bookings expired early", n)
	}
	if n := c.Expire(start.Add(MaxAge)); n != MaxBookings {
		t.Errorf("%d bookings expired, want all", n)
	}
	load(t, c, start.Add(MaxAge), 0, MaxCapacity)
}

func TestLoadNeverGoesBelowZeroNorBookingsAboveTheLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c, now := New(), start
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
					t.Fatalf("step %d: booked above the limit", step)
				}
			}
		case 3:
			c.End(id, now.Add(-time.Duration(random.IntN(1000))*time.Millisecond))
		case 4:
			c.Busy(now)
		}
		if l, limit := c.Usage(now); l < 0 || limit < 1 {
			t.Fatalf("step %d: load %d, limit %d", step, l, limit)
		}
	}
}

func TestConcurrentBookingsNeverOverbook(t *testing.T) {
	c := New()
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
		t.Errorf("%d bookings on 50 slots", got)
	}
}
