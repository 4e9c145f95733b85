package slot

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// pair is a session with two models.
func pair(capacity int) (s *Pool, a, b *Counter) {
	s = NewPool()
	a, b = s.Counter(), s.Counter()
	a.Report(4, 0, start)
	b.Report(4, 0, start)
	s.Report(capacity, 0, start)
	return s, a, b
}

func TestTheSessionsBoundHoldsBesideThatOfEachModel(t *testing.T) {
	_, a, b := pair(5)
	for i := range 4 {
		if !a.Book(fmt.Sprint(i), start) {
			t.Fatal("no slot")
		}
	}
	if a.Book("a", start) {
		t.Error("a model was booked above its own bound")
	}
	if !b.Book("b", start) {
		t.Error(`the session of five slots must have one left for the other model: b.Book("b", start): got false, want true`)
	} else if b.Book("c", start) {
		t.Error(`the session of five slots must have one left for the other model: b.Book("c", start): got true, want false`)
	}
	load(t, b, start, 5, 5)
	if used, capacity := b.Room(start); used != 1 {
		t.Errorf("room: got %d, want 1", used)
	} else if capacity != 1 {
		t.Errorf("capacity: got %d, want 1", capacity)
	}
	if !a.End("0", start, start) {
		t.Error("the end of an attempt on a full session was not told as such")
	}
	if !b.Book("c", start) {
		t.Error("the slot that one model gave back is not free for the other")
	}
	if !b.Cancel("c") {
		t.Error(`a booking given back on a full session, told once: b.Cancel("c"): got false, want true`)
	} else if b.Cancel("c") {
		t.Error(`a booking given back on a full session, told once: b.Cancel("c"): got true, want false`)
	}
}

func TestASessionWithoutABoundTakesWhatItsModelsTake(t *testing.T) {
	_, a, b := pair(0)
	for i := range 4 {
		if !a.Book(fmt.Sprint(i), start) {
			t.Fatal("without a bound of the session: a.Book(fmt.Sprint(i), start): got false, want true")
		}
		if !b.Book(fmt.Sprint(i), start) {
			t.Fatal("without a bound of the session: b.Book(fmt.Sprint(i), start): got false, want true")
		}
	}
	if a.Book("x", start) {
		t.Error(`booked above the models' bounds: a.Book("x", start): got true, want false`)
	} else if b.Book("x", start) {
		t.Error(`booked above the models' bounds: b.Book("x", start): got true, want false`)
	}
}

func TestRequestsOfOthersCountBesideOurs(t *testing.T) {
	s, a, b := pair(6)
	a.Report(4, 2, start)
	s.Report(6, 5, start) // two are ours
	load(t, b, start, 5, 6)
	if !a.Book("x", start) {
		t.Error(`a session with three requests of others and three of ours takes six: a.Book("x", start): got false, want ` +
			`true`)
	} else if b.Book("y", start) {
		t.Error(`a session with three requests of others and three of ours takes six: b.Book("y", start): got true, want ` +
			`false`)
	}
	if a.Idle() {
		t.Error("ours alone would leave three of six slots: a.Idle(): got true, want false")
	} else if !a.OthersAlone(start) {
		t.Error("ours alone would leave three of six slots: a.OthersAlone(start): got false, want true")
	}
}

func TestWhatAnAgentSaysNeverLowersOurLoad(t *testing.T) {
	s, a, _ := pair(6)
	a.Report(4, 3, start)
	for i, said := range []int{0, 1, 2, 3, -5} {
		now := start.Add(time.Duration(i) * time.Minute)
		a.Report(4, 3, now)
		s.Report(6, said, now)
		load(t, a, now, 3, 4)
	}
}

func TestOurRequestsThatEndedMeanwhileAreNotTakenForThoseOfOthers(t *testing.T) {
	s, a, _ := pair(0)
	for i := range 4 {
		a.Book(fmt.Sprint(i), start)
	}
	for i := range 4 {
		a.End(fmt.Sprint(i), start, start.Add(9*time.Second))
	}
	a.Report(4, 0, start.Add(10*time.Second))
	s.Report(0, 4, start.Add(10*time.Second)) // said while ours ran
	load(t, a, start.Add(10*time.Second), 0, 4)
	for at := 10_100 * time.Millisecond; at < 35*time.Second; at += 5 * time.Second {
		s.Report(0, 2+int(at/time.Second)%2, start.Add(at)) // and asked before they all had ended
		load(t, a, start.Add(at), 0, 4)
	}
	at := 9*time.Second + (1+pastSlices)*sliceLength
	s.Report(0, 4, start.Add(at))
	load(t, a, start.Add(at), 4, 8)
}

func TestASessionThatOursFillIsNotHeldByOthers(t *testing.T) {
	for name, c := range map[string]struct {
		capacity, inFlight, said int
		want                     bool
	}{
		"others fill it beside one":    {6, 1, 1 << 30, true},
		"the model's slots are ours":   {6, 4, 4, false},
		"the session's slots are ours": {3, 3, 3, false},
		"ours and those of others":     {6, 3, 9, true},
	} {
		s, a, _ := pair(c.capacity)
		a.Report(4, c.inFlight, start)
		s.Report(c.capacity, c.said, start)
		if a.OthersAlone(start) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

func TestANumberThatStaysTheSameIsBelievedOnceItMustBeNew(t *testing.T) {
	s, a, b := pair(0)
	a.Report(4, 4, start)
	s.Report(0, 4, start) // all ours
	load(t, b, start, 4, 8)
	for at := 10 * time.Second; at <= confirmedAfter; at += 5 * time.Second {
		a.Report(4, 0, start.Add(at))
		s.Report(0, 4, start.Add(at))
	}
	load(t, b, start.Add(confirmedAfter), 0, 4) // ours may still have been in it
	for at := confirmedAfter; at <= 2*confirmedAfter; at += 5 * time.Second {
		s.Report(0, 4, start.Add(at))
	}
	load(t, b, start.Add(2*confirmedAfter), 4, 8)
}

func TestAnAbsurdLoadFillsTheSessionAndIsForgotten(t *testing.T) {
	s, a, _ := pair(6)
	s.Report(6, 1<<40, start)
	if a.Book("x", start) {
		t.Error("a session that says it is full was booked")
	}
	if !a.OthersAlone(start) {
		t.Error("with nothing of ours under way on a busy session: a.OthersAlone(start): got false, want true")
	} else if a.Idle() {
		t.Error("with nothing of ours under way on a busy session: a.Idle(): got true, want false")
	}
	if used, capacity := a.Room(start); used != 0 {
		t.Errorf("room: got %d, want 0", used)
	} else if capacity != 0 {
		t.Errorf("capacity: got %d, want 0", capacity)
	}
	s.Report(1<<40, 0, start.Add(time.Second))
	if !a.Book("x", start.Add(time.Second)) {
		t.Error(`a session that says it is free again: a.Book("x", start.Add(time.Second)): got false, want true`)
	} else if !a.Book("y", start.Add(time.Second)) {
		t.Error(`a session that says it is free again: a.Book("y", start.Add(time.Second)): got false, want true`)
	}
}

func TestAModelThatIsDroppedTakesItsLoadAlong(t *testing.T) {
	s, a, b := pair(4)
	for i := range 4 {
		a.Book(fmt.Sprint(i), start)
	}
	s.Drop(a)
	if !b.Book("x", start) {
		t.Error("the slots of a model that is gone are taken")
	}
	a.End("0", start, start) // heard late
	load(t, b, start, 1, 4)
	if s.declared != 4 {
		t.Errorf("%d declared and %d under way are left of one model and one request: s.declared: got %d, want 4", s.declared,
			s.own, s.declared)
	} else if s.own != 1 {
		t.Errorf("%d declared and %d under way are left of one model and one request: s.own: got %d, want 1", s.declared,
			s.own, s.own)
	}
}

func TestASessionsLoadIsThatOfItsModelsWhateverHappens(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for round := range 100 {
		s, now := NewPool(), start
		var counters []*Counter
		for range 1 + random.IntN(4) {
			counters = append(counters, s.Counter())
		}
		capacity := random.IntN(12)
		for step := range 400 {
			now = now.Add(time.Duration(random.IntN(5_000)) * time.Millisecond)
			c, id := counters[random.IntN(len(counters))], fmt.Sprint(random.IntN(12))
			switch random.IntN(7) {
			case 0:
				c.Report(random.IntN(6), random.IntN(6), now)
			case 1:
				s.Report(capacity, random.IntN(30)-2, now)
			case 2, 3:
				before := s.spare()
				_, held := c.bookings[id]
				if c.Book(id, now) && !held && before <= 0 {
					t.Fatalf("round %d, step %d: a full session was booked", round, step)
				}
			case 4:
				c.End(id, now.Add(-time.Duration(random.IntN(9))*time.Second), now)
			case 5:
				c.Cancel(id)
			case 6:
				c.Expire(now)
			}
			own, declared := 0, 0
			for _, c := range counters {
				own += c.load()
				declared += c.declared
				if l, limit := c.Usage(now); l < 0 {
					t.Fatalf("round %d, step %d: load: got %d, want at least 0", round, step, l)
				} else if limit < 1 {
					t.Fatalf("round %d, step %d: load: limit: got %d, want at least 1", round, step, limit)
				}
			}
			if s.own != own {
				t.Fatalf("round %d, step %d: s.own: got %d, want %d", round, step, s.own, own)
			} else if s.declared != declared {
				t.Fatalf("round %d, step %d: s.declared: got %d, want %d", round, step, s.declared, declared)
			} else if s.others < 0 || s.others > max(0, s.said) {
				t.Fatalf("round %d, step %d: s.others: got %d, want 0 to %d", round, step, s.others, max(0, s.said))
			} else if got := s.load(); got < own {
				t.Fatalf("round %d, step %d: s.load(): got %d, want at least %d", round, step, got, own)
			}
		}
	}
}

func TestConcurrentBookingsOfAllModelsNeverOverbookTheSession(t *testing.T) {
	s := NewPool()
	var counters []*Counter
	for range 4 {
		c := s.Counter()
		c.Report(50, 0, start)
		counters = append(counters, c)
	}
	s.Report(70, 0, start)
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for g, c := range counters {
		wg.Go(func() {
			for i := range 60 {
				if c.Book(fmt.Sprintf("%d-%d", g, i), start) {
					mu.Lock()
					got++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if got != 70 {
		t.Errorf("bookings on a session of 70 slots: got %d, want 70", got)
	}
}
