package trust

import (
	"fmt"
	"testing"
)

func probing(model string, revision int64) Opinion {
	return Opinion{Model: model, Trust: 0.5, Lane: Probe, Revision: revision}
}

// flood applies a report for each of n providers with one model.
func flood(r *Registry, n int, name string, opinion func(string, int64) Opinion) (known int) {
	for i := range n {
		if r.Apply(report(fmt.Sprint(name, i), 1, opinion("m", 1))) {
			known++
		}
	}
	return known
}

// An attacker can have any number of accounts shut. The next cheat must not gain by it.
func TestAFloodOfShutPairsFreesNobody(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*Registry{"pairs": small(1_000, 100), "providers": small(100, 1_000)} {
		flood(r, 200, "sybil", closed)
		if r.Apply(report("cheat", 1, closed("m", 1))) {
			t.Errorf("%s: a verdict above all bounds: got it known, want no room", name)
		}
		if !r.Full() {
			t.Errorf("%s: Full: got false, want true", name)
		}
		for _, provider := range []string{"cheat", "stranger"} {
			o := r.Of(provider, "m")
			if o.Lane != Probe {
				t.Errorf("%s: %s, who is unknown: got the lane %v, want %v", name, provider, o.Lane, Probe)
			}
			if o.Known() {
				t.Errorf("%s: %s: Known: got true, want false", name, provider)
			}
		}
		if !r.Shut("sybil0", "m") {
			t.Errorf("%s: who was shut first: got forgotten, want shut", name)
		}
	}
}

func TestAFullRegistryOfUnrestrictedPairsTouchesNoLane(t *testing.T) {
	t.Parallel()
	r := small(1_000, 100)
	flood(r, 200, "p", plain)
	if r.Full() {
		t.Error("Full: got true, want false")
	}
	if got := r.Of("stranger", "m").Lane; got != Main {
		t.Errorf("an unknown pair: got the lane %v, want %v", got, Main)
	}
}

// The same report comes again every few seconds, and is taken as soon as there is room.
func TestAVerdictWithoutRoomIsTriedAgainWithTheSameReport(t *testing.T) {
	t.Parallel()
	r := small(1_000, 100)
	flood(r, 60, "p", plain)
	flood(r, 40, "sybil", closed)
	cheat := report("cheat", 1, closed("m", 1))
	for range 2 {
		if r.Apply(cheat) {
			t.Fatal("without room: got the verdict known, want not")
		}
	}
	if got := r.Dropped(); got != 2 {
		t.Errorf("dropped: got %d, want 2", got)
	}
	r.Trim(func(string) bool { return false })
	if !r.Apply(cheat) {
		t.Error("with room: got the verdict not known, want known")
	}
	if !r.Shut("cheat", "m") {
		t.Error("the cheat: got no verdict, want shut")
	}
	if r.Full() {
		t.Error("Full: got true after all has found room, want false")
	}
	if got := r.Of("stranger", "m").Lane; got != Main {
		t.Errorf("an unknown pair: got the lane %v, want %v", got, Main)
	}
}

// A report of which a part found no room is not known, however often it comes.
func TestARepeatedReportIsKnownOnlyWhereAllOfItIs(t *testing.T) {
	t.Parallel()
	r := small(1_000, 100)
	flood(r, 75, "p", plain)
	part := report("q", 5, closed("x", 1), plain("y", 1))
	for n := range 3 {
		if r.Apply(part) {
			t.Errorf("try %d: got all of it known, want a part", n+1)
		}
	}
	if r.Apply(report("q", 4, closed("x", 1))) {
		t.Error("an older report: got all of the newer one known, want a part")
	}
	if !r.Shut("q", "x") {
		t.Error("what restricts: got no verdict, want shut")
	}
	if r.Full() {
		t.Error("Full: got true although all restrictions are known, want false")
	}
}

func TestTheMoreSevereAnOpinionTheMoreOfTheRoomItMayFill(t *testing.T) {
	t.Parallel()
	r := small(10_000, 1_600)
	window := func(m string, revision int64) Opinion { return capped(m, 100, revision) }
	for _, c := range []struct {
		name    string
		opinion func(string, int64) Opinion
		want    int // pairs kept afterwards
	}{{"plain", plain, 1_200}, {"capped", window, 1_400}, {"probing", probing, 1_500}, {"closed", closed, 1_600}} {
		flood(r, 2_000, c.name, c.opinion)
		if got := r.totalLocked(); got != c.want {
			t.Errorf("after a flood of %s: got %d pairs kept, want %d", c.name, got, c.want)
		}
	}
}

func TestAProviderWithTooManyRestrictedModelsGainsByNoneOfThem(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	revision := int64(0)
	tell := func(name string, opinion func(string, int64) Opinion) {
		revision++
		rep := Report{Provider: "p", Revision: revision}
		for n := range MaxReported {
			rep.Opinions = append(rep.Opinions, opinion(fmt.Sprint(name, n), revision))
		}
		r.Apply(rep)
	}
	tell("a", closed)
	tell("b", probing)
	tell("c", closed)
	if got := r.Of("p", "b0").Lane; got != Shut {
		t.Errorf("a model whose opinion left: got the lane %v, want %v", got, Shut)
	}
	tell("d", closed)
	if got := r.Of("p", "a0").Lane; got != Shut {
		t.Errorf("a model that was shut and left: got the lane %v, want %v", got, Shut)
	}
	if r.Full() {
		t.Error("Full: got true for one provider with many models, want false")
	}
	if got := r.Of("q", "a0").Lane; got != Main {
		t.Errorf("another provider: got the lane %v, want %v", got, Main)
	}
}

func TestMoreProvidersWithoutRoomThanAreRememberedLeaveTheRegistryFull(t *testing.T) {
	t.Parallel()
	r := small(10, 1_000)
	flood(r, 10, "sybil", closed)
	flood(r, 20, "cheat", closed)
	if got := len(r.unplaced); got != 11 {
		t.Errorf("providers remembered: got %d, want 11", got)
	}
	for n := range 10 {
		r.storeLocked(fmt.Sprint("sybil", n), &said{opinions: []Opinion{closed("m", 1)}}, &said{})
		r.Apply(report(fmt.Sprint("cheat", n), 1, closed("m", 1)))
	}
	if !r.Full() {
		t.Error("Full: got false although some cheats are not remembered, want true")
	}
}
