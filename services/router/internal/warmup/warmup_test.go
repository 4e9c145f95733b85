package warmup

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/trust"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// tick is how often plans are made.
const tick = 250 * time.Millisecond

type bundle struct {
	*Planner
	view     *presence.View
	trust    *trust.Registry
	revision uint64
}

func setup() *bundle {
	v, said := presence.New(func(string) {}), trust.New(func(string) {})
	return &bundle{Planner: New(v, said, [2]uint64{1, 2}), view: v, trust: said}
}

// node is the n-th provider's, serving model m and taking warm-ups.
func node(n int, change ...func(*presence.Session)) presence.Session {
	s := presence.Session{
		Provider: fmt.Sprint("p", n), Node: "n", Epoch: int64(n), Active: true, TakesWarmups: true,
		Offers: []presence.Offer{{Model: "m", Healthy: true, Capacity: 4}},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// endpoint is the n-th provider's server, which a hub calls.
func endpoint(n int) presence.Session {
	return node(n, func(s *presence.Session) { s.Mode, s.TakesWarmups = 2, false })
}

func (b *bundle) report(now time.Time, sessions ...presence.Session) {
	b.revision++
	b.view.Apply(presence.Report{Hub: "h", Incarnation: 1, Address: "x", Revision: b.revision, Sessions: sessions}, now)
}

// between makes all plans of a span of time and returns who was asked when.
func (b *bundle) between(from, to time.Time) map[Target][]time.Time {
	out := map[Target][]time.Time{}
	for now := from; now.Before(to); now = now.Add(tick) {
		for _, t := range b.Plan(now) {
			out[t.Target] = append(out[t.Target], now)
		}
	}
	return out
}

func target(n int) Target { return Target{Provider: fmt.Sprint("p", n), Node: "n", Model: "m"} }

func TestAScarceModelThatIsAskedForIsKeptLoaded(t *testing.T) {
	b := setup()
	b.report(start, node(1), node(2))
	b.Asked("m", start)
	end := start.Add(DemandFor + 2*RestedFor)
	asked := b.between(start, end)
	for n := 1; n <= 2; n++ {
		times := asked[target(n)]
		if len(times) == 0 {
			t.Fatalf("asks of node %d: got 0, want at least 1", n)
		}
		if first := times[0].Sub(start); first < RestedFor || first > RestedFor+scanInterval+scarceSpread {
			t.Errorf("node %d was asked first: got %v, want %v to %v", n, first, RestedFor, RestedFor+scanInterval+scarceSpread)
		}
		for i := 1; i < len(times); i++ {
			if pause := times[i].Sub(times[i-1]); pause < AskInterval {
				t.Errorf("node %d was asked again: got %v, want at least %v", n, pause, AskInterval)
			}
		}
		if last := times[len(times)-1].Sub(start); last > DemandFor+scanInterval+scarceSpread {
			t.Errorf("node %d was asked %v after the last request: got %v, want at most %v", n, last, last,
				DemandFor+scanInterval+scarceSpread)
		}
		if len(times) < 8 {
			t.Errorf("node %d was asked: got %d, want at least 8", n, len(times))
		}
	}
}

func TestOnlyNodesThatNeedItAreAsked(t *testing.T) {
	served := func(b *bundle, now time.Time) { b.view.Of("m", "p1")[0].Slots.Served(now) }
	for name, tc := range map[string]struct {
		sessions []presence.Session
		then     func(b *bundle, now time.Time)
		want     int
	}{
		"one":   {[]presence.Session{node(1)}, nil, 1},
		"two":   {[]presence.Session{node(1), node(2)}, nil, 2},
		"three": {[]presence.Session{node(1), node(2), node(3)}, nil, 0},
		"one, and two of the second tier, which take none": {[]presence.Session{node(1), endpoint(2), endpoint(3)}, nil, 1},
		"a third is away": {[]presence.Session{node(1), node(2), node(3, func(s *presence.Session) { s.Draining = true })},
			nil, 2},
		"takes none":      {[]presence.Session{node(1, func(s *presence.Session) { s.TakesWarmups = false })}, nil, 0},
		"not active":      {[]presence.Session{node(1, func(s *presence.Session) { s.Active = false })}, nil, 0},
		"unhealthy":       {[]presence.Session{node(1, func(s *presence.Session) { s.Offers[0].Healthy = false })}, nil, 0},
		"busy":            {[]presence.Session{node(1, func(s *presence.Session) { s.Offers[0].InFlight = 1 })}, nil, 0},
		"has just served": {[]presence.Session{node(1)}, served, 0},
		"is booked now": {[]presence.Session{node(1)},
			func(b *bundle, now time.Time) { b.view.Of("m", "p1")[0].Slots.Book("r", now) }, 0},
		"somebody asked": {[]presence.Session{node(1), node(2)}, func(b *bundle, now time.Time) { b.Heard(target(2), now) },
			1},
		"all were asked": {[]presence.Session{node(1), node(2)},
			func(b *bundle, now time.Time) { b.Heard(Target{Model: "m"}, now) }, 0},
		"provider's asked": {[]presence.Session{node(1), node(2)},
			func(b *bundle, now time.Time) { b.Heard(Target{Provider: "p1", Model: "m"}, now) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup()
			b.report(start, tc.sessions...)
			now := start.Add(RestedFor)
			b.Asked("m", now)
			if tc.then != nil {
				tc.then(b, now)
			}
			if got := b.between(now, now.Add(time.Minute)); len(got) != tc.want {
				t.Errorf("asked %v, want %d", got, tc.want)
			}
		})
	}
}

func TestNobodyIsAskedForAModelThatNobodyWants(t *testing.T) {
	b := setup()
	b.report(start, node(1))
	b.Asked("other", start.Add(RestedFor))
	b.Asked("m", start.Add(RestedFor-DemandFor))
	if got := b.between(start.Add(RestedFor), start.Add(2*RestedFor)); len(got) != 0 {
		t.Errorf("asked: got %d, want 0, in %v", len(got), got)
	}
}

func TestIdleNodesThatMayNotBeReadyAreAskedWhenOthersAreFull(t *testing.T) {
	b := setup()
	full := func(s *presence.Session) { s.Offers[0].InFlight = 4 }
	sick := func(s *presence.Session) { s.Offers[0].Healthy = false }
	b.report(start, node(1, full), node(2, full), node(3, full), node(4, sick),
		node(5, sick, func(s *presence.Session) { s.Said = 1 }), // has others' work to do
		node(6, sick, func(s *presence.Session) { s.Active = false }),
		node(7)) // whose window is too small, say, and that is ready
	now := start.Add(time.Minute)
	b.Short("m")
	got := b.between(now, now.Add(shortSpread+2*tick))
	if len(got) != 1 {
		t.Errorf("asked: len(got): got %d, want 1, in %v", len(got), got)
	} else if len(got[target(4)]) != 1 {
		t.Errorf("asked: len(got[target(4)]): got %d, want 1, in %v", len(got[target(4)]), got)
	}
	b.Short("m")
	if got := b.between(now.Add(AskInterval/2), now.Add(AskInterval/2+2*shortSpread)); len(got) != 0 {
		t.Errorf("asked again: got %d, want 0, in %v", len(got), got)
	}
	later := start.Add(KeptFor)
	b.Short("m")
	if got := b.between(later, later.Add(2*shortSpread)); len(got[target(7)]) != 1 {
		t.Errorf("asked %v, want node 7 too: it has served nothing for long", got)
	}
}

func TestAShortageAsksFewNodesOfMany(t *testing.T) {
	b := setup()
	for n := range 50 {
		b.report(start, node(n, func(s *presence.Session) { s.Offers[0].Healthy = false }))
	}
	b.Short("m")
	if got := b.between(start, start.Add(2*shortSpread)); len(got) != perShort {
		t.Errorf("nodes asked: got %d, want %d", len(got), perShort)
	}
}

func TestAnAskThatIsNotWorthItAnyMoreIsDropped(t *testing.T) {
	for name, change := range map[string]func(*bundle, time.Time){
		"gone":    func(b *bundle, now time.Time) { b.view.Expire(now.Add(presence.Expiry + time.Hour)) },
		"serving": func(b *bundle, now time.Time) { b.view.Of("m", "p1")[0].Slots.Book("r", now) },
		"served":  func(b *bundle, now time.Time) { b.view.Of("m", "p1")[0].Slots.Served(now) },
		"draining": func(b *bundle, now time.Time) {
			b.report(now, node(1, func(s *presence.Session) { s.Draining = true }))
		},
		"heard": func(b *bundle, now time.Time) { b.Heard(target(1), now) },
	} {
		b := setup()
		b.report(start, node(1))
		now := start.Add(RestedFor)
		b.Asked("m", now)
		if got := b.Plan(now); len(got) != 0 {
			t.Fatalf("%s: asked: len(got): got %d, want 0, in %v", name, len(got), got)
		} else if len(b.waiting) != 1 {
			t.Fatalf("%s: len(b.waiting): got %d, want 1", name, len(b.waiting))
		}
		change(b, now)
		if got := b.between(now.Add(tick), now.Add(scanInterval+scarceSpread)); len(got) != 0 {
			t.Errorf("%s: asked: len(got): got %d, want 0, in %v", name, len(got), got)
		} else if len(b.waiting) != 0 {
			t.Errorf("%s: len(b.waiting): got %d, want 0", name, len(b.waiting))
		}
	}
}

// Replicas that see the same and hear each other a little later ask once among
// them, but for the few that are due in the same moment.
func TestReplicasDoNotAskTwice(t *testing.T) {
	const replicas, models = 3, 200
	view := setup()
	for n := range models {
		view.report(start, node(n, func(s *presence.Session) { s.Offers[0].Model = fmt.Sprint("m", n) }))
	}
	now := start.Add(RestedFor)
	var all []*Planner
	for i := range uint64(replicas) {
		p := New(view.view, view.trust, [2]uint64{i, i + 7})
		for n := range models {
			p.Asked(fmt.Sprint("m", n), now)
		}
		all = append(all, p)
	}
	asked := 0
	for range (scanInterval + scarceSpread) / tick {
		var said []Target
		for _, p := range all {
			for _, ask := range p.Plan(now) {
				said = append(said, ask.Target)
			}
		}
		asked += len(said)
		now = now.Add(tick)
		for _, t := range said {
			for _, p := range all {
				p.Heard(t, now)
			}
		}
	}
	if asked < models || asked > models*11/10 {
		t.Errorf("%d asks of %d replicas for %d nodes: got %d, want %d to %d", asked, replicas, models, asked, models,
			models*11/10)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	b := setup()
	for n := range MaxModels + 100 {
		b.Asked(fmt.Sprint("m", n), start)
	}
	if n := b.models.Load(); n != MaxModels {
		t.Errorf("models remembered: got %d, want %d", n, MaxModels)
	}
	b.Plan(start.Add(DemandFor))
	if n := b.models.Load(); n != 0 {
		t.Errorf("models remembered after their time: got %d, want 0", n)
	}
	for n := range MaxShort + 100 {
		b.Short(fmt.Sprint("m", n))
	}
	if n := len(b.short); n != MaxShort {
		t.Errorf("short models: got %d, want %d", n, MaxShort)
	}
	for n := range MaxPending + 100 {
		b.report(start, node(n, func(s *presence.Session) { s.Offers[0].Model = fmt.Sprint("m", n) }))
		b.Asked(fmt.Sprint("m", n), start.Add(RestedFor))
	}
	now := start.Add(DemandFor + RestedFor)
	for n := range MaxPending + 100 {
		b.Asked(fmt.Sprint("m", n), now)
	}
	b.Plan(now)
	if n := len(b.waiting); n < MaxPending*9/10 || n > MaxPending {
		t.Errorf("nodes wait: got %d, want %d to %d", n, MaxPending*9/10, MaxPending)
	}
	if n := len(b.Plan(now.Add(scarceSpread))); n != MaxAtOnce {
		t.Errorf("asked at once: got %d, want %d", n, MaxAtOnce)
	}
	for n := range MaxAsked + 100 {
		b.Heard(Target{Model: "x", Provider: fmt.Sprint(n), Node: "n"}, now)
	}
	if n := len(b.asked); n != MaxAsked {
		t.Errorf("remembered as asked: got %d, want %d", n, MaxAsked)
	}
	if got := b.Plan(now.Add(scarceSpread + tick)); len(got) != 0 {
		t.Errorf("asked that cannot be remembered: got %d, want 0", len(got))
	}
}

func BenchmarkAsked(b *testing.B) {
	p := setup()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Asked("m", start.Add(time.Duration(i)*time.Millisecond))
	}
}

// A cheat with many nodes must not keep the nodes of others from being kept ready.
func TestAModelThatIsShutIsNotAskedAndDoesNotCountAsOnline(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report(start, node(1), node(2), node(3))
	b.trust.Apply(trust.Report{Provider: "p1", Revision: 1, Opinions: []trust.Opinion{
		{Model: "m", Trust: 0.05, Lane: trust.Shut, Revision: 1},
	}})
	b.Asked("m", start)
	got := map[string]bool{}
	for now := start; now.Before(start.Add(RestedFor + time.Minute)); now = now.Add(time.Second) {
		b.report(now, node(1), node(2), node(3))
		for _, a := range b.Plan(now) {
			got[a.Provider] = true
		}
	}
	if want := map[string]bool{"p2": true, "p3": true}; !maps.Equal(got, want) {
		t.Errorf("asked: got %v, want %v", got, want)
	}
}
