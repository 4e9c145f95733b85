package trust

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
)

func quiet(string) {}

// plain is an opinion that restricts nothing.
func plain(model string, revision int64) Opinion {
	return Opinion{Model: model, Trust: 0.9, Revision: revision}
}

func capped(model string, window, revision int64) Opinion {
	return Opinion{Model: model, Trust: 0.9, Window: window, Revision: revision}
}

func closed(model string, revision int64) Opinion {
	return Opinion{Model: model, Trust: 0.05, Lane: Shut, Revision: revision}
}

func report(provider string, revision int64, opinions ...Opinion) Report {
	return Report{Provider: provider, Revision: revision, Opinions: opinions}
}

func TestAnUnknownPairHasFullTrustInTheMainLane(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	r.Apply(report("p", 1, closed("m", 1)))
	o := r.Of("q", "m")
	if want := (Opinion{Trust: 1}); *o != want {
		t.Errorf("got %+v, want %+v", *o, want)
	}
	if o.Known() {
		t.Error("Known: got true, want false")
	}
	if !r.Of("p", "m").Known() {
		t.Error("what was said: Known: got false, want true")
	}
}

// A provider may name more models than a report holds, and may serve a model before the
// verifier has looked at it.
// No reference serves a gateway model, so an uncalibrated benchmark of it is passed by any
// model.
func TestAGatewayModelIsShutToAllButVendors(t *testing.T) {
	r := New(quiet)
	r.SetGateway(func(model string) bool { return model == "openai/x" })
	r.Apply(report("p", 1, plain("openai/x", 1), plain("m", 1)))
	for _, c := range []struct {
		model  string
		vendor bool
		want   Lane
	}{{"openai/x", false, Shut}, {"openai/x", true, Main}, {"m", false, Main}} {
		if got := r.OfMember("p", c.model, c.vendor).Lane; got != c.want {
			t.Errorf("%s, of a vendor %t: got %v, want %v", c.model, c.vendor, got, c.want)
		}
	}
}

func TestAFurtherModelOfAKnownProviderIsShutUntilItIsNamed(t *testing.T) {
	t.Parallel()
	var told []string
	r := New(func(model string) { told = append(told, model) })
	r.Apply(report("p", 1, plain("m", 1)))
	if got := r.Of("p", "further").Lane; got != Shut {
		t.Errorf("a model that was never named: lane: got %v, want %v", got, Shut)
	}
	r.Apply(report("p", 2, plain("m", 1), plain("further", 1)))
	if got := r.Of("p", "further").Lane; got != Main {
		t.Errorf("once it is named: lane: got %v, want %v", got, Main)
	}
	if want := []string{"further"}; !slices.Equal(told, want) {
		t.Errorf("waiters told: got %q, want %q", told, want)
	}
}

func TestAnOlderOrRepeatedReportChangesNothing(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	r.Apply(report("p", 5, closed("m", 3)))
	for _, revision := range []int64{4, 5, 1} {
		if !r.Apply(report("p", revision, plain("m", 9))) {
			t.Errorf("revision %d: got a report that was not known, want one that came late", revision)
		}
		if got := r.Of("p", "m").Lane; got != Shut {
			t.Errorf("after revision %d: lane: got %v, want %v", revision, got, Shut)
		}
	}
	r.Apply(report("p", 6, plain("m", 4)))
	if got := r.Of("p", "m").Lane; got != Main {
		t.Errorf("after revision 6: lane: got %v, want %v", got, Main)
	}
}

func TestAModelWhoseRevisionIsOlderKeepsItsOpinion(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	r.Apply(report("p", 1, capped("m", 100, 7)))
	r.Apply(report("p", 2, plain("m", 6)))
	if got := r.Of("p", "m").Window; got != 100 {
		t.Errorf("window: got %d, want 100", got)
	}
}

// Only a pair of which nothing was ever said is unknown.
func TestAModelThatANewerReportLeavesOutKeepsItsOpinion(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	r.Apply(report("p", 1, closed("a", 1), capped("b", 100, 1), plain("c", 1)))
	r.Apply(report("p", 2, plain("c", 2)))
	r.Apply(report("p", 3))
	if got := r.Of("p", "a").Lane; got != Shut {
		t.Errorf("lane: got %v, want %v", got, Shut)
	}
	if got := r.Of("p", "b").Window; got != 100 {
		t.Errorf("window: got %d, want 100", got)
	}
}

// The last report that names all models decides, in whatever order all have come.
func TestReportsInAnyOrderAndTwiceEndInTheSameOpinions(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	models := []string{"a", "b", "c"}
	var reports []Report
	for revision := int64(1); revision <= 12; revision++ {
		rep := Report{Provider: "p", Revision: revision}
		for _, m := range models {
			rep.Opinions = append(rep.Opinions, Opinion{Model: m, Trust: float64(1+random.IntN(20)) / 20,
				Lane: Lane(random.IntN(int(lanes))), Window: int64(random.IntN(3)) * 1000, Revision: revision})
		}
		reports = append(reports, rep)
	}
	last := reports[len(reports)-1]
	for range 50 {
		r := New(quiet)
		both := append(append([]Report{}, reports...), reports...)
		random.Shuffle(len(both), func(i, j int) { both[i], both[j] = both[j], both[i] })
		for _, rep := range both {
			r.Apply(rep)
		}
		for i, m := range models {
			if got := *r.Of("p", m); got != last.Opinions[i] {
				t.Fatalf("%s: got %+v, want %+v", m, got, last.Opinions[i])
			}
		}
	}
}

func TestWaitersHearOfModelsThatChangeTheirLaneOrWindow(t *testing.T) {
	t.Parallel()
	var heard []string
	r := New(func(m string) { heard = append(heard, m) })
	expect := func(what string, want ...string) {
		t.Helper()
		if !reflect.DeepEqual(heard, want) {
			t.Errorf("%s: got %q, want %q", what, heard, want)
		}
		heard = nil
	}
	r.Apply(report("p", 1, plain("a", 1), closed("b", 1), capped("c", 5, 1)))
	expect("at first", "b", "c")
	r.Apply(report("p", 2, plain("a", 2), closed("b", 2), capped("c", 5, 2)))
	expect("the same again")
	r.Apply(report("p", 3, plain("b", 3), capped("c", 6, 3)))
	expect("changes", "b", "c")
}

func TestPairsAreCountedByLane(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	r.Apply(report("p", 1, plain("a", 1), closed("b", 1)))
	r.Apply(report("q", 1, closed("a", 1)))
	r.Apply(report("p", 2, plain("b", 2)))
	if got, want := r.Pairs(), (map[Lane]int64{Main: 2, Probe: 0, Shut: 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// small returns a registry with room for few.
func small(providers, pairs int) *Registry {
	r := New(quiet)
	r.maxProviders, r.maxPairs = providers, pairs
	return r
}

// An attacker can make any number of accounts. They fill three quarters of the room, and
// a verdict on anybody still finds its place.
func TestAFloodOfAccountsPushesOutNoRestriction(t *testing.T) {
	t.Parallel()
	r := small(100, 1_000_000)
	r.Apply(report("liar", 1, capped("m", 100, 1)))
	for n := range 10_000 {
		r.Apply(report(fmt.Sprint("sybil ", n), 1, plain("m", 1)))
	}
	if r.kept != 75 {
		t.Errorf("providers kept: got %d, want 75", r.kept)
	}
	if got := r.Of("liar", "m").Window; got != 100 {
		t.Errorf("the window measured before: got %d, want 100", got)
	}
	if got, want := r.Dropped(), int64(10_000-74); got != want {
		t.Errorf("dropped: got %d, want %d", got, want)
	}
	for n := range 25 {
		if !r.Apply(report(fmt.Sprint("cheat ", n), 1, closed("m", 1))) {
			t.Errorf("verdict %d: got no room, want the last quarter", n)
		}
	}
	if r.Apply(report("one more", 1, closed("m", 1))) {
		t.Error("above all bounds: got room, want none")
	}
	if r.kept != 100 {
		t.Errorf("providers kept: got %d, want 100", r.kept)
	}
	// A provider that has its place may be restricted although nothing is free.
	r.Apply(report("sybil 0", 2, closed("m", 2)))
	if !r.Shut("sybil 0", "m") {
		t.Error("a known provider: got no verdict, want shut")
	}
}

func TestAFloodOfModelsPushesOutNoRestriction(t *testing.T) {
	t.Parallel()
	r := small(1_000, 100)
	r.Apply(report("liar", 1, closed("m", 1)))
	var many []Opinion
	for n := range 50 {
		many = append(many, plain(fmt.Sprint("m", n), 1))
	}
	r.Apply(report("a", 1, many...))
	r.Apply(report("b", 1, many...))
	if got := r.totalLocked(); got != 51 {
		t.Errorf("pairs kept: got %d, want 51", got)
	}
	// Of a report that finds no room, the restricting opinions are kept.
	if r.Apply(report("c", 1, append(many, closed("x", 1))...)) {
		t.Error("a report that found no room: got all of it known, want a part")
	}
	if !r.Shut("c", "x") {
		t.Error("its restriction: got none, want shut")
	}
	if got := r.totalLocked(); got != 52 {
		t.Errorf("pairs kept: got %d, want 52", got)
	}
}

func TestTheModelsOfOneProviderAreBoundedAndRestrictionsLeaveLast(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	page := func(from int, make func(string, int64) Opinion, revision int64) Report {
		rep := Report{Provider: "p", Revision: revision}
		for n := range MaxReported {
			rep.Opinions = append(rep.Opinions, make(fmt.Sprintf("m%05d", from+n), revision))
		}
		return rep
	}
	r.Apply(page(2*MaxReported, closed, 1))
	r.Apply(page(MaxReported, plain, 2))
	if got := r.totalLocked(); got != MaxModels {
		t.Fatalf("models kept: got %d, want %d", got, MaxModels)
	}
	r.Apply(page(0, plain, 3))
	if got := r.totalLocked(); got != MaxModels {
		t.Errorf("models kept: got %d, want %d", got, MaxModels)
	}
	if got := r.Pairs()[Shut]; got != MaxReported {
		t.Errorf("models that are shut: got %d, want %d", got, MaxReported)
	}
	if got := r.Of("p", fmt.Sprintf("m%05d", MaxReported)); got.Known() {
		t.Errorf("a plain model that no report names: got %+v, want it dropped", *got)
	}
	if got := r.Dropped(); got != MaxReported {
		t.Errorf("dropped: got %d, want %d", got, MaxReported)
	}
}

func TestOnlyUnrestrictedProvidersThatAreAwayAreForgotten(t *testing.T) {
	t.Parallel()
	r := small(100, 1_000_000)
	for n := range 66 {
		r.Apply(report(fmt.Sprint("p", n), 1, plain("m", 1)))
	}
	nobody := func(string) bool { return false }
	r.Trim(nobody)
	if r.kept != 66 {
		t.Fatalf("while there is room: got %d kept, want 66", r.kept)
	}
	r.Apply(report("cheat", 1, closed("m", 1)))
	r.Trim(func(p string) bool { return p == "p7" })
	if r.kept != 2 {
		t.Errorf("providers kept: got %d, want 2", r.kept)
	}
	if !r.Shut("cheat", "m") {
		t.Error("who is restricted: got forgotten, want shut")
	}
	if !r.Of("p7", "m").Known() {
		t.Error("who is online: got forgotten, want known")
	}
	if got := r.totalLocked(); got != 2 {
		t.Errorf("pairs counted: got %d, want 2", got)
	}
	r.Apply(report("p1", 2, plain("m", 1)))
	if !r.Of("p1", "m").Known() {
		t.Error("the next report: got not taken, want known")
	}
}

func TestReadersSeeWholeReportsWhileTheyChange(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	r.Apply(report("p", 1, closed("m", 1)))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for n := int64(2); n < 2_000; n++ {
			if n%2 == 0 {
				r.Apply(report("p", n, capped("m", n, n)))
			} else {
				r.Apply(report("p", n, closed("m", n)))
			}
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if o := r.Of("p", "m"); (o.Lane == Shut) == (o.Window > 0) {
				t.Errorf("got %+v, want a lane and a window of one report", *o)
				return
			}
		}
	})
	wg.Wait()
}

func TestALookAtAnOpinionAllocatesNothing(t *testing.T) {
	r := New(quiet)
	r.Apply(report("p", 1, plain("a", 1), closed("b", 1), plain("c", 1)))
	providers, n := []string{"p", "q"}, 0
	got := testing.AllocsPerRun(1_000, func() {
		n++
		_ = r.Of(providers[n%2], "b")
	})
	if got != 0 {
		t.Errorf("allocations a look: got %v, want 0", got)
	}
}

func TestARepeatedReportLeavesTheGraceAsItIs(t *testing.T) {
	t.Parallel()
	r := New(quiet)
	until := time.Unix(1_790_000_000, 0).UTC()
	o := Opinion{Model: "m", Trust: 1, GraceUntil: until, Revision: 1}
	r.Apply(report("p", 1, o))
	r.Apply(report("p", 2, o))
	if got := r.Of("p", "m").GraceUntil; !got.Equal(until) {
		t.Errorf("got %v, want %v", got, until)
	}
}
