package pick

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/trust"
	"svc.internal/services/router/internal/window"
)

// external is a session of a server that a hub calls.
func external(s *presence.Session) { s.Mode = 2 }

// degrade has a provider fail often enough to get probes only.
func (b *bundle) degrade(provider string) {
	rec := b.known.Get(health.Pair{Provider: provider, Model: "m"})
	for i := range window.Enough {
		rec.Window.Record(window.Sample{At: start, Account: tag.Account(i)})
	}
}

func tiers(c Choice) []presence.Tier {
	var out []presence.Tier
	for _, x := range c.Candidates {
		out = append(out, x.Seat.Session.Tier())
	}
	return out
}

// flaws are what may keep a provider from leading.
var flaws = []struct {
	change func(*presence.Session)
	after  func(b *bundle, n int)
}{
	{}, {}, {}, // nothing
	{change: full},
	{change: func(s *presence.Session) { s.Said = 1000 }}, // busy with the requests of others
	{change: func(s *presence.Session) { s.Draining = true }},
	{change: func(s *presence.Session) { s.Active = false }},
	{change: func(s *presence.Session) { s.Offers[0].Healthy = false }},
	{change: func(s *presence.Session) { s.Offers[0].Window = 10 }},
	{change: func(s *presence.Session) { s.MaxRequestBytes = 1 }},
	{change: func(s *presence.Session) { s.Capabilities = nil }},
	{after: func(b *bundle, n int) { b.degrade(id(n)) }},
	{after: func(b *bundle, n int) { b.fail(id(n), breaker.Threshold) }},
	{after: func(b *bundle, n int) { b.say(n, in(trust.Probe)) }},
	{after: func(b *bundle, n int) { b.say(n, in(trust.Shut)) }},
}

// world is a bundle of random sessions, and a second one that has those of the first tier
// alone.
func world(random *rand.Rand, webSockets, externals int) (both, alone *bundle) {
	both, alone = setup(), setup()
	for i := range webSockets + externals {
		n := i + 1
		s := session(n, func(s *presence.Session) { s.Mode = presence.WebSocket })
		flaw := flaws[random.IntN(len(flaws))]
		if flaw.change != nil {
			flaw.change(&s)
		}
		worlds := []*bundle{both, alone}
		if i >= webSockets {
			s.Mode = []presence.Mode{2, 9}[random.IntN(2)]
			worlds = worlds[:1]
		}
		for _, b := range worlds {
			b.report("hub", s)
			if flaw.after != nil {
				flaw.after(b, n)
			}
		}
	}
	return both, alone
}

// An external session leads exactly where those of the first tier alone would refuse the
// request or have it wait, and no candidate of the first tier comes after one of the second.
func TestTheSecondTierLeadsOnlyWhereTheFirstCannot(t *testing.T) {
	led := map[presence.Tier]int{}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 9))
		webSockets, externals := random.IntN(5), 1+random.IntN(4)
		if seed%100 == 0 { // sampled
			webSockets, externals = random.IntN(2)*(sampleAbove+10), random.IntN(2)*sampleAbove+10
		}
		both, alone := world(random, webSockets, externals)
		var exclude []string
		for n := range webSockets + externals {
			if random.IntN(8) == 0 && len(exclude) < 8 {
				exclude = append(exclude, id(n+1))
			}
		}
		ask := func(r *Request) {
			r.Exclude = exclude
			r.Prefer.Sort = Sort(seed % 3)
		}
		last := random.IntN(2) == 0
		_, refused := alone.look(alone.request(ask), last)
		c, err := both.look(both.request(ask), last)
		if err != nil {
			if refused == nil {
				t.Fatalf("seed %d: the first tier alone serves, and with the second: got %v", seed, err)
			}
			continue
		}
		order := tiers(c)
		if !slices.IsSorted(order) {
			t.Fatalf("seed %d: tiers of the candidates: got %v, want the first before the second", seed, order)
		}
		if got, want := order[0] == presence.SecondTier, refused != nil; got != want {
			t.Fatalf("seed %d: the second tier leads: got %t, want %t, where the first alone has %v", seed, got, want, refused)
		}
		led[order[0]]++
	}
	for _, tier := range presence.Tiers() {
		if led[tier] < 300 {
			t.Errorf("tier %d has led in %d worlds, want at least 300 that say something", tier, led[tier])
		}
	}
}

// Of two sessions that differ in their tier alone, no score makes the second lead.
func TestNoScoreMakesTheSecondTierLead(t *testing.T) {
	b := setup()
	b.report("hub", session(1, func(s *presence.Session) {
		s.Probation, s.Uptime, s.UptimeKnown, s.Offers[0].InFlight = true, 0, true, 9
	}), session(2, external), session(3, external))
	for _, sort := range []Sort{ByWeight, ByThroughput, ByLatency} {
		c, err := b.look(b.request(preferring(Preferences{Sort: sort})), false)
		if err != nil {
			t.Fatal(err)
		}
		switch got := chosen(c); {
		case len(got) != MaxCandidates:
			t.Errorf("sort %d: got %v, want %d candidates", sort, got, MaxCandidates)
		case got[0] != id(1):
			t.Errorf("sort %d: got %v, want %s before the others", sort, got, id(1))
		}
		b.Ended(Attempt{Request: fmt.Sprint("r", b.requests), Provider: id(1), Node: "n", Epoch: 1, Model: "m",
			Outcome: Neutral})
	}
}

// What the second tier takes is a shortage of the first all the same.
func TestAnOverflowHasNodesOfTheFirstTierLoadTheModel(t *testing.T) {
	b := setup()
	cold := session(2, func(s *presence.Session) { s.Offers[0].Healthy, s.TakesWarmups = false, true })
	b.report("hub", session(1, full), cold, session(3, external))
	if _, err := b.Select(t.Context(), b.request()); err != nil {
		t.Fatal(err)
	}
	b.deps.Warm.Plan(b.clock.Now())
	b.clock.Advance(2 * time.Second)
	asked := b.deps.Warm.Plan(b.clock.Now())
	if len(asked) != 1 {
		t.Fatalf("nodes asked: got %d, want 1", len(asked))
	}
	if got := asked[0].Provider; got != id(2) {
		t.Errorf("got %s, want %s", got, id(2))
	}
}

// A server that a hub calls is better than two seconds in the queue.
func TestTheSecondTierIsTriedBeforeAnybodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup()
		b.report("hub", session(1, full), session(2, external))
		began := time.Now()
		c, err := b.Select(t.Context(), b.request())
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen(c); !slices.Equal(got, []string{id(2)}) {
			t.Errorf("got %v, want %s alone", got, id(2))
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited: got %v, want 0", waited)
		}
	})
}

func TestAWaiterIsWokenByASlotOfEitherTier(t *testing.T) {
	for _, n := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			b.report("hub", session(1, full), session(2, external, full))
			got := make(chan Choice, 1)
			go func() {
				c, err := b.Select(t.Context(), b.request())
				if err != nil {
					t.Error(err)
				}
				got <- c
			}()
			synctest.Wait()
			b.report("hub", session(n, func(s *presence.Session) { s.Mode = presence.Mode(n) }))
			if c := <-got; chosen(c)[0] != id(n) {
				t.Errorf("got %v, want %s", chosen(c), id(n))
			}
		})
	}
}

// The probe lane of either tier takes nothing that overflows from the main lane of the first.
func TestADegradedEndpointDoesNotTakeWhatOverflows(t *testing.T) {
	b := setup()
	b.report("hub", session(1, full), session(2, external))
	b.degrade(id(2))
	if _, err := b.look(b.request(), false); err == nil {
		t.Error("a degraded endpoint was chosen while a WebSocket was busy: got nil, want an error")
	}
	c, err := b.look(b.request(), true)
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(c)[0]; got != id(2) {
		t.Errorf("when the wait is over: got %s, want %s", got, id(2))
	}
}

// The walk of the second tier comes to the first one's seats again, and a sample may be followed
// by a walk, and still each seat counts once.
func TestAChoiceTellsWhatItPassedOverEachSeatOnce(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2, full), session(3, full), session(4, external), session(5, external, full))
	c, err := b.Select(t.Context(), b.request())
	if err != nil {
		t.Fatal(err)
	}
	want := []PassedOver{{Reason: Busy, Count: 3}, {Reason: Outranked, Count: 1}}
	if !slices.Equal(c.PassedOver, want) {
		t.Errorf("passed over: got %v, want %v", c.PassedOver, want)
	}
}

// A provider that is chosen is not passed over: neither the seat that it takes, though that is full then, nor
// another seat of it.
func TestWhoIsChosenIsNotPassedOver(t *testing.T) {
	for name, pin := range map[string]string{"anybody": "", "the pinned provider": id(1)} {
		b := setup()
		b.report("hub", session(1, func(s *presence.Session) { s.Offers[0].Capacity = 1 }))
		req := b.request()
		req.Pin, req.AllowFallbacks = pin, true
		c, err := b.Select(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.PassedOver) != 0 {
			t.Errorf("%s: got %v, want nothing", name, c.PassedOver)
		}
	}
}

func TestAnEndpointThatCouldHaveServedIsCountedAsOutranked(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2, external), session(3, external, full))
	if _, err := b.Select(t.Context(), b.request()); err != nil {
		t.Fatal(err)
	}
	if got := b.deps.Stats.Of(id(2))[Outranked]; got != 1 {
		t.Errorf("a free endpoint: got %d, want 1", got)
	}
	if got := b.deps.Stats.Of(id(3))[Outranked]; got != 0 {
		t.Errorf("a full endpoint: got %d, want 0", got)
	}
	if got := Outranked.String(); got != "second_tier" {
		t.Errorf("the word: got %q, want second_tier", got)
	}
}

func TestAPinToAnEndpointUsesItAtOnce(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2), session(3, external))
	for _, fallbacks := range []bool{true, false} {
		c, err := b.Select(t.Context(), b.request(pinned(id(3), fallbacks)))
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen(c)[0]; got != id(3) {
			t.Errorf("fallbacks %t: got %s, want %s", fallbacks, got, id(3))
		}
		if want := map[bool]int{true: 3, false: 1}[fallbacks]; len(c.Candidates) != want {
			t.Errorf("fallbacks %t: candidates: got %d, want %d", fallbacks, len(c.Candidates), want)
		}
	}
}

// The provider is pinned, not its endpoint.
func TestAPinnedProviderIsReachedByItsWebSocketFirst(t *testing.T) {
	both := func(change ...func(*presence.Session)) *bundle {
		b := setup()
		// The view has the endpoint first.
		b.report("hub", session(1, external, func(s *presence.Session) { s.Node, s.Epoch = "endpoint", 2 }))
		b.report("hub", session(1, change...))
		return b
	}
	for name, tc := range map[string]struct {
		b    *bundle
		want presence.Tier
	}{
		"both are free":         {both(), presence.FirstTier},
		"the WebSocket is busy": {both(full), presence.SecondTier},
	} {
		for what, prefer := range map[string]func(*Request){
			"a pin": pinned(id(1), false), "an order": preferring(Preferences{Order: []string{id(1)}}),
			"no preference": func(*Request) {},
		} {
			for range 20 {
				c, err := tc.b.Select(t.Context(), tc.b.request(prefer))
				if err != nil {
					t.Fatalf("%s, %s: %v", name, what, err)
				}
				if got := tiers(c)[0]; got != tc.want {
					t.Fatalf("%s, %s: tier: got %d, want %d", name, what, got, tc.want)
				}
				seat := c.Candidates[0].Seat
				seat.Slots.Cancel(fmt.Sprint("r", tc.b.requests))
			}
		}
	}
}

func TestAProviderOfBothTiersIsOneCandidate(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(1, external, func(s *presence.Session) { s.Node, s.Epoch = "endpoint", 9 }),
		session(2, external))
	c, err := b.Select(t.Context(), b.request())
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(c); !slices.Equal(got, []string{id(1), id(2)}) {
		t.Errorf("got %v, want %s and %s", got, id(1), id(2))
	}
}

// What the order names was looked at with the first tier.
func TestAnEndpointInAnOrderIsLookedAtOnce(t *testing.T) {
	for _, crowd := range []int{0, sampleAbove + 1} {
		b := setup()
		b.report("hub", session(1, full), session(2, external, full))
		for n := range crowd {
			b.report("hub", session(100+n, external, full))
		}
		if _, err := b.look(b.request(preferring(Preferences{Order: []string{id(2)}})), false); err == nil {
			t.Fatal("a request was served by who is full")
		}
		if got := b.deps.Stats.Of(id(2))[Busy]; got != 1 {
			t.Errorf("among %d others: looks: got %d, want 1", crowd, got)
		}
	}
}

func TestAnOrderIsStrongerThanTiersAndAnOnlyIsNot(t *testing.T) {
	for name, tc := range map[string]struct {
		first  func(*presence.Session) // of the first of two WebSockets
		prefer Preferences
		want   []string
	}{
		"an order that names an endpoint": {nil, Preferences{Order: []string{id(3), id(1)}}, []string{id(3), id(1), id(2)}},
		"an endpoint after a busy one":    {full, Preferences{Order: []string{id(1), id(3)}}, []string{id(3), id(2)}},
		"an order within an only": {nil, Preferences{Order: []string{id(3)}, Only: []string{id(1), id(3)}},
			[]string{id(3), id(1)}},
		"an only":                         {nil, Preferences{Only: []string{id(3), id(1)}}, []string{id(1), id(3)}},
		"an only with the endpoint alone": {nil, Preferences{Only: []string{id(3)}}, []string{id(3)}},
		"an ignore":                       {nil, Preferences{Ignore: []string{id(1)}}, []string{id(2), id(3)}},
	} {
		for _, crowd := range []int{0, sampleAbove + 1} { // of endpoints that nobody names
			b := setup()
			if tc.first == nil {
				tc.first = func(*presence.Session) {}
			}
			b.report("hub", session(1, tc.first), session(2), session(3, external))
			for n := range crowd {
				b.report("hub", session(100+n, external, func(s *presence.Session) { s.Draining = true }))
			}
			c, err := b.Select(t.Context(), b.request(preferring(tc.prefer)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := chosen(c); !slices.Equal(got, tc.want) {
				t.Errorf("%s, among %d others: got %v, want %v", name, crowd, got, tc.want)
			}
		}
	}
}

// Whoever has failed the request is not tried again, and then the second tier is next.
func TestTheSecondTierFollowsAFirstThatHasFailed(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2), session(3, external))
	c, err := b.Select(t.Context(), b.request(func(r *Request) { r.Exclude = []string{id(1), id(2)} }))
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(c); !slices.Equal(got, []string{id(3)}) {
		t.Errorf("got %v, want %s alone", got, id(3))
	}
}

func TestARefusalKnowsTheWindowsOfBothTiers(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2, external, func(s *presence.Session) { s.Offers[0].Window = 5000 }))
	c, err := b.Select(t.Context(), b.request(func(r *Request) { r.PromptTokens = 4000 }))
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(c); !slices.Equal(got, []string{id(2)}) {
		t.Errorf("a prompt that the endpoint alone takes: got %v, want %s alone", got, id(2))
	}
	_, err = b.Select(t.Context(), b.request(func(r *Request) { r.PromptTokens = 6000 }))
	wantReason(t, err, fault.ContextLengthExceeded)
	if f, _ := fault.As(err); f.Meta["max_context_length"] != "5000" {
		t.Errorf("max_context_length: got %q, want 5000", f.Meta["max_context_length"])
	}
}

// The verifier asks vendors nothing, so neither its silence nor what it says of others
// touches them.
func TestAVendorIsTrustedWhateverTheVerifierSays(t *testing.T) {
	b := setup()
	b.report("hub", session(1, external, func(s *presence.Session) { s.Vendor = true }))
	b.say(1, in(trust.Shut))
	c, err := b.Select(t.Context(), b.request())
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(c); !slices.Equal(got, []string{id(1)}) {
		t.Errorf("got %v, want %s alone", got, id(1))
	}
	b.report("hub", session(1, external))
	if _, err := b.look(b.request(), true); err == nil {
		t.Error("an endpoint that is shut was chosen: got nil, want an error")
	}
}
