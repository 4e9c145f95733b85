package slot

import (
	"fmt"
	"testing"
	"time"
)

func TestRefusalsLowerCapacityAndTimeRestoresIt(t *testing.T) {
	c := NewPool().Counter()
	c.Report(8, 0, start)
	c.Busy(start)
	c.Busy(start.Add(busyPause / 2)) // the same burst
	load(t, c, start, 0, 4)
	load(t, c, start.Add(RegainInterval), 0, 5)
	load(t, c, start.Add(time.Hour), 0, 8)
	for i := range 100 {
		c.Busy(start.Add(time.Hour + time.Duration(i)*busyPause))
	}
	if _, limit := c.Usage(start.Add(time.Hour + 100*busyPause)); limit < 1 || limit > 2 {
		t.Errorf("the limit after a hundred refusals: got %d, want 1 to 2", limit)
	}
}

func TestOneRefusalLowersCapacityToWhatIsUnderWayWithinBounds(t *testing.T) {
	for underWay, want := range map[int]int{0: 50, 20: 50, 60: 60, 90: 75} {
		c := NewPool().Counter()
		c.Report(100, underWay, start)
		c.Busy(start)
		if _, limit := c.Usage(start); limit != want {
			t.Errorf("%d under way: got %d left of 100, want %d", underWay, limit, want)
		}
	}
}

func TestAnyCapacityIsWholeAgainAfterFiveMinutes(t *testing.T) {
	for _, declared := range []int{1, 2, 10, 59, 60, 61, 500, MaxCapacity} {
		c := NewPool().Counter()
		c.Report(declared, 0, start)
		now := start
		for range 60 {
			c.Busy(now)
			now = now.Add(busyPause)
		}
		_, low := c.Usage(now)
		if ceiling := max(2, declared/10); low > ceiling {
			t.Errorf("%d declared: after a minute of refusals: got %d, want at most %d", declared, low, ceiling)
		}
		last := low
		for range regainSteps {
			now = now.Add(RegainInterval)
			_, limit := c.Usage(now)
			if limit < last {
				t.Fatalf("%d declared: fell: got %d, want at least %d", declared, limit, last)
			}
			last = limit
		}
		if last != declared {
			t.Errorf("%d declared: after five minutes: got %d, want %d", declared, last, declared)
		}
	}
}

func TestCapacityIsWholeAgainHoweverMuchWasProven(t *testing.T) {
	for _, declared := range []int{2, 10, 60, 500, MaxCapacity} {
		for _, underWay := range []int{0, 1, declared / 3, declared - 1} {
			c := NewPool().Counter()
			c.Report(declared, underWay, start)
			c.Served(start)
			now := start
			for range 60 {
				c.Busy(now)
				now = now.Add(busyPause)
			}
			_, last := c.Usage(now)
			if ceiling := max(2, underWay); last > ceiling {
				t.Errorf("%d declared, %d under way: after a minute of refusals: got %d, want at most %d", declared, underWay, last,
					ceiling)
			}
			for step := range regainSteps {
				now = now.Add(RegainInterval)
				_, limit := c.Usage(now)
				if step == 0 && declared > 1 && limit-last > max(1, underWay/10) {
					t.Errorf("%d declared, %d under way: from %d to %d at once", declared, underWay, last, limit)
				}
				if limit < last {
					t.Fatalf("%d declared, %d under way: fell: got %d, want at least %d", declared, underWay, limit, last)
				}
				last = limit
			}
			if last != declared {
				t.Errorf("%d declared, %d under way: after five minutes: got %d, want %d", declared, underWay, last, declared)
			}
		}
	}
}

// engine answers each attempt with busy or serves it for a second.
type engine struct {
	takes   int
	counter *Counter
	ends    map[string]time.Time
	served  int
	refused int
}

// step lets what is due end and offers one more request.
func (e *engine) step(request string, now time.Time) {
	for id, at := range e.ends {
		if !now.Before(at) {
			delete(e.ends, id)
			e.counter.End(id, at.Add(-time.Second), now)
			e.counter.Served(now)
			e.served++
		}
	}
	if !e.counter.Book(request, now) {
		return
	}
	if len(e.ends) >= e.takes {
		e.counter.End(request, now, now)
		e.counter.Busy(now)
		e.refused++
		return
	}
	e.ends[request] = now.Add(time.Second)
}

// A provider that declares no capacity counts as taking 10 requests of a model, and
// others declare too much. A provider that takes 3 is found out within seconds and kept
// busy all the same, whatever it declares. A provider that has become stronger is used
// in full within five minutes.
func TestThePracticeOfAProviderIsLearnt(t *testing.T) {
	for _, declared := range []int{0, 600, MaxCapacity} {
		t.Run(fmt.Sprint(declared), func(t *testing.T) { learnThePractice(t, declared) })
	}
}

func learnThePractice(t *testing.T, declared int) {
	c, whole := NewPool().Counter(), declared
	if declared == 0 {
		whole = DefaultCapacity
	}
	c.Report(declared, 0, start)
	load(t, c, start, 0, whole)
	e := &engine{takes: 3, counter: c, ends: map[string]time.Time{}}
	now, n := start, 0
	run := func(d time.Duration) {
		e.served, e.refused = 0, 0
		for end := now.Add(d); now.Before(end); now = now.Add(10 * time.Millisecond) {
			n++
			e.step(fmt.Sprint(n), now)
			if n%1000 == 0 {
				c.Report(declared, len(e.ends), now)
			}
		}
	}
	run(5 * time.Second)
	run(2 * time.Minute)
	if e.refused > 120 {
		t.Errorf("refusals in two minutes: more than one a second: got %d, want at most 120", e.refused)
	}
	if e.served < 2*120 {
		t.Errorf("served in two minutes by an engine that could 360: got %d, want at least 2*120", e.served)
	}
	e.takes = whole
	run(5 * time.Minute)
	load(t, c, now, c.load(), whole)
	run(10 * time.Second)
	if e.refused > 0 {
		t.Errorf("%d refused and %d served in ten seconds by an engine that does ten a second at least: e.refused: got %d, "+
			"want 0", e.refused, e.served, e.refused)
	} else if e.served < 90 {
		t.Errorf("%d refused and %d served in ten seconds by an engine that does ten a second at least: e.served: got %d, "+
			"want at least 90", e.refused, e.served, e.served)
	}
	e.takes = 3 // and back again
	run(10 * time.Second)
	run(2 * time.Minute)
	if e.refused > 120 {
		t.Errorf("once it has shrunk: got %d, want at most 120", e.refused)
	} else if e.served < 2*120 {
		t.Errorf("e.served: got %d, want at least 2*120", e.served)
	}
}
