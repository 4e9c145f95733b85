package breaker

import (
	"math/rand/v2"
	"testing"
	"time"

	"svc.internal/services/router/internal/tag"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// in is a breaker that stands in a state, with a rest that begins at start.
func in(s State) *Breaker {
	b := &Breaker{state: s}
	if s == Open {
		b.until = start.Add(FirstRest)
	}
	if s == Suspected {
		b.failed = []memory{{account: 1, failures: Threshold, last: start}}
	}
	b.settleLocked()
	return b
}

// opened is a breaker that the failures of different accounts have opened.
func opened(now time.Time) *Breaker {
	b := &Breaker{}
	for i := range Accounts {
		b.Failed(tag.Account(i+1), false, now)
	}
	return b
}

func TestEveryTransitionIsAsDocumented(t *testing.T) {
	table := []struct {
		from State
		by   trigger
		to   State
	}{
		{Closed, success, Closed}, {Closed, failure, Closed}, {Closed, doubt, Suspected}, {Closed, conviction, Open},
		{Closed, probeServed, Closed}, {Closed, probeFailed, Closed}, {Closed, rested, Closed}, {Closed, faded, Closed},
		{Open, success, Open}, {Open, failure, Open}, {Open, doubt, Open}, {Open, conviction, Open},
		{Open, probeServed, HalfOpen}, {Open, probeFailed, Open}, {Open, rested, HalfOpen}, {Open, faded, Open},
		{HalfOpen, success, Closed}, {HalfOpen, failure, Open}, {HalfOpen, doubt, Open}, {HalfOpen, conviction, Open},
		{HalfOpen, probeServed, HalfOpen}, {HalfOpen, probeFailed, Open}, {HalfOpen, rested, HalfOpen},
		{HalfOpen, faded, HalfOpen},
		{Suspected, success, Closed}, {Suspected, failure, Suspected}, {Suspected, doubt, Suspected},
		{Suspected, conviction, Open},
		{Suspected, probeServed, Closed}, {Suspected, probeFailed, Open}, {Suspected, rested, Suspected},
		{Suspected, faded, Closed},
	}
	if len(table) != len(transitions)*int(triggers) {
		t.Fatalf("got %d rows, want one for each of %d transitions", len(table), len(transitions)*int(triggers))
	}
	for _, row := range table {
		b := in(row.from)
		b.fireLocked(row.by, start)
		if b.state != row.to {
			t.Errorf("from %d by %d: got %d, want %d", row.from, row.by, b.state, row.to)
		}
	}
}

func TestOneAccountNeverOpensABreaker(t *testing.T) {
	b := &Breaker{}
	for i := range 50 {
		now := start.Add(time.Duration(i) * time.Second)
		suspected := b.Failed(1, false, now)
		if want := i >= Threshold-1; suspected != want {
			t.Errorf("failure %d: got suspicion %v, want %v", i+1, suspected, want)
		}
		if admitted, trial := b.Admits(2, now); !admitted || trial {
			t.Fatalf("failure %d: got admitted %v and trial %v for another account, want admitted and none", i+1, admitted,
				trial)
		}
		if b.Shunned(2) {
			t.Fatalf("failure %d: got another account's requests kept away, want them let through", i+1)
		}
	}
	if !b.Shunned(1) {
		t.Error("got the account's own requests sent on, want them kept for others first")
	}
}

func TestFailuresOfThreeAccountsOpenABreakerAtOnce(t *testing.T) {
	b := &Breaker{}
	for i := range Accounts {
		if got := b.State(start); got != Closed {
			t.Fatalf("after %d accounts: got state %d, want closed", i, got)
		}
		b.Failed(tag.Account(i+1), false, start)
	}
	if admitted, _ := b.Admits(9, start.Add(FirstRest-1)); admitted {
		t.Error("got admitted while open, want not")
	}
}

func TestASuccessOfAnybodyClearsWhatFailedBefore(t *testing.T) {
	b := &Breaker{}
	for range Threshold {
		b.Failed(1, false, start)
	}
	b.Failed(2, false, start)
	b.Served(start)
	if got := b.State(start); got != Closed || !b.Idle(start) {
		t.Errorf("got state %d, want closed with nothing remembered", got)
	}
	b.Failed(3, false, start)
	if got := b.State(start); got != Closed {
		t.Errorf("got state %d by one failure after a success, want closed", got)
	}
}

func TestAProbeDecidesOnASuspectedProviderAndOnNoOther(t *testing.T) {
	for _, c := range []struct {
		from   State
		served bool
		want   State
	}{
		{Closed, false, Closed}, {Closed, true, Closed}, {Suspected, false, Open}, {Suspected, true, Closed},
		{Open, false, Open}, {Open, true, HalfOpen},
	} {
		b := in(c.from)
		b.Probed(c.served, start)
		if got := b.State(start); got != c.want {
			t.Errorf("from %d by a probe that is served %v: got %d, want %d", c.from, c.served, got, c.want)
		}
	}
	b := in(Suspected)
	b.Probed(true, start)
	if b.Shunned(1) || !b.Idle(start) {
		t.Error("got failures remembered after a probe that was served, want none")
	}
}

func TestAnExcusedFailureCountsOnlyBesideOnesOfOthersThatAreNot(t *testing.T) {
	b := &Breaker{}
	for i := range 20 { // one poisoned request each, which failed elsewhere before
		if b.Failed(tag.Account(i+1), true, start) {
			t.Fatal("got suspicion by excused failures, want none")
		}
	}
	if got := b.State(start); got != Closed {
		t.Errorf("got state %d by excused failures alone, want closed", got)
	}
	if got := len(b.failed); got != maxRemembered {
		t.Errorf("got %d accounts remembered, want at most %d", got, maxRemembered)
	}
	b = &Breaker{}
	b.Failed(1, true, start)
	b.Failed(2, true, start)
	b.Failed(3, false, start)
	if got := b.State(start); got != Open {
		t.Errorf("got state %d although others' requests fail there too, want open", got)
	}
	b = &Breaker{}
	b.Failed(1, true, start)
	b.Failed(1, false, start)
	b.Failed(2, false, start)
	if got := b.State(start); got != Closed {
		t.Errorf("got state %d by two accounts, want closed: one account counts once", got)
	}
}

func TestSuspicionFades(t *testing.T) {
	b := in(Suspected)
	if got := b.State(start.Add(RememberFor - 1)); got != Suspected {
		t.Errorf("got state %d, want suspected", got)
	}
	if got := b.State(start.Add(RememberFor)); got != Closed || !b.Idle(start.Add(RememberFor)) {
		t.Errorf("got state %d, want closed with nothing remembered", got)
	}
	b = &Breaker{}
	b.Failed(1, false, start)
	b.Failed(2, false, start.Add(RememberFor))
	b.Failed(3, false, start.Add(RememberFor))
	if got := b.State(start.Add(RememberFor)); got != Closed {
		t.Errorf("got state %d by failures long apart, want closed", got)
	}
}

func TestSuspicionIsRaisedAnewByTheNextFailuresAfterARestart(t *testing.T) {
	before, after := &Breaker{}, &Breaker{}
	for range 2 * Threshold {
		before.Failed(1, false, start)
	}
	for i := range Threshold {
		before.Failed(1, false, start)
		if got, want := after.Failed(1, false, start), i == Threshold-1; got != want {
			t.Errorf("failure %d after the restart: got suspicion %v, want %v", i+1, got, want)
		}
	}
	if a, b := before.State(start), after.State(start); a != b {
		t.Errorf("got state %d after the restart, want %d as before it", b, a)
	}
}

func TestHalfOpenAdmitsOneTrialAtATime(t *testing.T) {
	b := in(Open)
	now := start.Add(FirstRest)
	if ok, probe := b.Admits(1, now); !ok || !probe {
		t.Fatal("got no trial from a rested breaker, want one")
	}
	if !b.Probe(1, now) || b.Probe(2, now) {
		t.Fatal("got no trial or two, want one exactly")
	}
	if ok, _ := b.Admits(2, now); ok {
		t.Error("got admitted beside a trial under way, want not")
	}
	if !b.Probe(2, now.Add(ProbeTimeout)) {
		t.Error("got no trial after a lost one, want one")
	}
	b.Served(now)
	if got := b.State(now); got != Closed {
		t.Errorf("got state %d after a trial that was served, want closed", got)
	}
}

func TestWhoLosesATrialLeavesTheNextToOthers(t *testing.T) {
	b := opened(start)
	now := start.Add(FirstRest)
	if !b.Probe(7, now) {
		t.Fatal("got no trial, want one")
	}
	b.Failed(7, false, now)
	now = now.Add(2 * FirstRest)
	if b.Probe(7, now) {
		t.Error("got the account whose trial failed the next one, want it left to others")
	}
	if !b.Probe(8, now) {
		t.Error("got no trial for another account, want one")
	}
	b = opened(start)
	now = start.Add(FirstRest)
	b.Probe(7, now)
	b.Failed(7, false, now)
	if !b.Probe(7, now.Add(4*FirstRest)) {
		t.Error("got no trial although nobody else came, want one after twice the rest")
	}
}

func TestAnExcusedTrialLeavesTheBreakerHalfOpenForTheNext(t *testing.T) {
	b := in(Open)
	now := start.Add(FirstRest)
	b.Probe(1, now)
	b.Failed(1, true, now)
	if b.State(now) != HalfOpen || !b.Probe(2, now) {
		t.Errorf("got state %d, want half open with a trial for the next", b.State(now))
	}
}

func TestTheRestDoublesUpToItsBoundAndStartsOverAfterAClose(t *testing.T) {
	b, now := opened(start), start
	want := FirstRest
	for i := range 10 {
		account := tag.Account(i + 1)
		if ok, _ := b.Admits(account, now.Add(want-1)); ok {
			t.Fatalf("got admitted before a rest of %v, want not", want)
		}
		now = now.Add(want)
		if !b.Probe(account, now) {
			t.Fatalf("got no trial after a rest of %v, want one", want)
		}
		b.Failed(account, false, now)
		want = min(want*2, MaxRest)
	}
	now = now.Add(MaxRest)
	b.Probe(99, now)
	b.Served(now)
	for i := range Accounts {
		b.Failed(tag.Account(i+1), false, now)
	}
	if b.State(now.Add(FirstRest-1)) != Open || b.State(now.Add(FirstRest)) != HalfOpen {
		t.Error("got a rest that did not start over, want FirstRest")
	}
}

// TestWhateverOneAccountDoesOthersAreServed plays random histories in which one
// account's requests fail and the platform's probes are served.
func TestWhateverOneAccountDoesOthersAreServed(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		b, now := &Breaker{}, start
		for range 200 {
			now = now.Add(time.Duration(random.IntN(int(30 * time.Second))))
			switch random.IntN(5) {
			case 0:
				b.Probed(true, now)
			case 1:
				b.Failed(1, true, now)
			case 2:
				b.Served(now)
			default:
				b.Failed(1, false, now)
			}
			if admitted, trial := b.Admits(2, now); !admitted || trial || b.Shunned(2) {
				t.Fatalf("got admitted %v, trial %v, state %d; want every other account served", admitted, trial, b.State(now))
			}
			if len(b.failed) > maxRemembered {
				t.Fatalf("got %d accounts remembered, want at most %d", len(b.failed), maxRemembered)
			}
		}
	}
}
