package pick

import (
	"context"
	"errors"
	"fmt"
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

// twoModels is a session of models m and k with this bound over both.
func twoModels(n, capacity int) presence.Session {
	return session(n, func(s *presence.Session) {
		s.Capacity = capacity
		s.Offers = append(s.Offers, presence.Offer{Model: "k", Healthy: true, Window: 1000, Capacity: 10})
	})
}

func TestASessionIsNotSentMoreThanItTakesOverAllModels(t *testing.T) {
	b := setup()
	b.report("hub", twoModels(1, 12))
	for i := range 12 {
		if _, err := b.look(b.request(func(r *Request) { r.Model = []string{"m", "k"}[i%2] }), true); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	for _, model := range []string{"m", "k"} {
		if _, err := b.look(b.request(func(r *Request) { r.Model = model }), true); !errors.Is(err, errBusy) {
			t.Errorf("model %s: got the error %v, want %v", model, err, errBusy)
		}
	}
}

func TestTheEndOnAFullSessionWakesWhoWaitsForAnotherModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup()
		b.report("hub", twoModels(1, 1))
		first := b.request()
		if _, err := b.Select(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		second := b.request(func(r *Request) { r.Model = "k" })
		go func() {
			_, err := b.Select(t.Context(), second)
			done <- err
		}()
		synctest.Wait()
		b.Ended(Attempt{Request: first.ID, Provider: id(1), Node: "n", Epoch: 1, Model: "m", Outcome: Served})
		began := time.Now()
		if err := <-done; err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if time.Since(began) != 0 {
			t.Errorf("woken: got %v, want 0", time.Since(began))
		}
	})
}

func TestAProviderThatOthersKeepBusyGetsLess(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2, func(s *presence.Session) { s.Said = 9 }),
		session(3, func(s *presence.Session) { s.Said = 1 << 30 }))
	count := map[string]int{}
	for range 100 {
		r := b.request()
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		count[chosen(c)[0]]++
		c.Candidates[0].Seat.Slots.Cancel(r.ID)
	}
	if count[id(1)] != 100 {
		t.Errorf("picks: count[id(1)]: got %d, want 100", count[id(1)])
	} else if count[id(3)] != 0 {
		t.Errorf("picks: count[id(3)]: got %d, want 0", count[id(3)])
	}
	if got := b.deps.Stats.Of(id(3)); got[Busy] != 100 {
		t.Errorf("rejects: got[Busy]: got %d, want 100", got[Busy])
	} else if len(got) != 1 {
		t.Errorf("rejects: len(got): got %d, want 1, in %v", len(got), got)
	}
}

// Whatever a provider says of its own load, requests that somebody else can take
// go on as if it was not there.
func TestWhoLiesAboutItsLoadHurtsOnlyItself(t *testing.T) {
	for inFlight := range 2 {
		synctest.Test(t, func(t *testing.T) {
			b := setup()
			liar := session(1, func(s *presence.Session) { s.Said, s.Offers[0].InFlight = 1<<30, inFlight })
			b.report("hub", liar, session(2))
			rec := b.known.Get(health.Pair{Provider: id(2), Model: "m"})
			for i := range window.Enough {
				rec.Window.Record(window.Sample{At: start, Account: tag.Account(i)})
			}
			began := time.Now()
			c, err := b.Select(t.Context(), b.request())
			switch {
			case err != nil:
				t.Errorf("%d of ours: got the error %v, want none", inFlight, err)
			case chosen(c)[0] != id(2):
				t.Errorf("%d of ours: chosen(c)[0]: got %q, want %q", inFlight, chosen(c)[0], id(2))
			case time.Since(began) != 0:
				t.Errorf("%d of ours: time.Since(began): got %v, want 0", inFlight, time.Since(began))
			}
			b.report("hub", session(2, func(s *presence.Session) { s.Draining = true }))
			_, err = b.Select(t.Context(), b.request())
			wantReason(t, err, fault.ProvidersBusy)
		})
	}
}

func TestAProviderInProbationAndOneThatIsOftenAwayGetLess(t *testing.T) {
	for name, change := range map[string]func(*presence.Session){
		"probation": func(s *presence.Session) { s.Probation = true },
		"uptime":    func(s *presence.Session) { s.Uptime, s.UptimeKnown = 0.4, true },
	} {
		b := setup()
		roomy := func(s *presence.Session) { s.Offers[0].Capacity = 100 }
		b.report("hub", session(1, roomy), session(2, roomy, change))
		led := 0
		for range 100 {
			r := b.request()
			c, err := b.Select(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if chosen(c)[0] == id(2) {
				led++
			}
			if len(c.Candidates) != 2 {
				t.Fatalf("%s: candidates where it does not lead: got %d, want 2", name, len(c.Candidates))
			}
		}
		if led == 0 {
			t.Errorf("%s: led, of 100, while the other fills up: got 0, want any but 0", name)
		} else if led >= 50 {
			t.Errorf("%s: led, of 100, while the other fills up: got %d, want less than 50", name, led)
		}
		b.report("hub", session(1, full), session(2, roomy, change))
		c, err := b.Select(t.Context(), b.request(func(r *Request) { r.Pin = id(2) }))
		if err != nil {
			t.Errorf("%s: with a pin: got the error %v, want none", name, err)
		} else if chosen(c)[0] != id(2) {
			t.Errorf("%s: with a pin: chosen(c)[0]: got %q, want %q", name, chosen(c)[0], id(2))
		}
	}
}

func TestABodyThatOnlyOtherAgentsCouldTakeIsTooLarge(t *testing.T) {
	const v1Body = 1<<20 - 1024
	v1 := func(n int, change ...func(*presence.Session)) presence.Session {
		return session(n, append([]func(*presence.Session){func(s *presence.Session) {
			s.MaxRequestBytes, s.Capabilities = v1Body, []string{"chat", "logprobs", "stream"}
		}}, change...)...)
	}
	v2 := session(9, func(s *presence.Session) { s.MaxRequestBytes = 26 << 20 })
	away := func(s *presence.Session) { s.Active = false }
	many := make([]presence.Session, sampleAbove+100)
	for i := range many {
		many[i] = v1(i + 100)
	}
	for name, tc := range map[string]struct {
		sessions []presence.Session
		change   func(*Request)
		want     fault.Reason // "" when it is served
	}{
		"fits": {[]presence.Session{v1(1)}, func(r *Request) { r.BodyBytes = v1Body }, ""},
		"one byte more": {[]presence.Session{v1(1), v1(2)}, func(r *Request) { r.BodyBytes = v1Body + 1 },
			fault.RequestTooLarge},
		"many": {many, func(r *Request) { r.BodyBytes = 2 << 20 }, fault.RequestTooLarge},
		"the first is full": {[]presence.Session{v1(1, full)}, func(r *Request) { r.BodyBytes = 2 << 20 },
			fault.RequestTooLarge},
		"another takes it": {[]presence.Session{v1(1), v2}, func(r *Request) { r.BodyBytes = 2 << 20 }, ""},
		"another is inactive": {[]presence.Session{v1(1), session(9, away)}, func(r *Request) { r.BodyBytes = 2 << 20 },
			fault.RequestTooLarge},
		"sorted": {many, func(r *Request) { r.BodyBytes, r.Prefer.Sort = 2<<20, ByLatency },
			fault.RequestTooLarge},
		"only": {[]presence.Session{v1(1)}, func(r *Request) { r.BodyBytes, r.Prefer.Only = 2<<20, []string{id(1)} },
			fault.RequestTooLarge},
		"pinned": {[]presence.Session{v1(1)}, func(r *Request) { r.BodyBytes, r.Pin = 2<<20, id(1) },
			fault.RequestedProviderUnavailable},
		"pinned, fallbacks": {[]presence.Session{v1(1)}, func(r *Request) {
			r.BodyBytes, r.Pin, r.AllowFallbacks = 2<<20,
				id(1), true
		},
			fault.RequestTooLarge},
		"nobody has the endpoint": {[]presence.Session{v1(1)}, func(r *Request) {
			r.BodyBytes, r.Capabilities = 2<<20,
				[]string{"embeddings"}
		},
			fault.NoProviderOnline},
		"all are away": {[]presence.Session{v1(1, away)}, func(r *Request) { r.BodyBytes = 2 << 20 }, fault.NoProviderOnline},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup()
			b.report("hub", tc.sessions...)
			_, err := b.Select(t.Context(), b.request(tc.change))
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantReason(t, err, tc.want)
			if f, _ := fault.As(err); tc.want == fault.RequestTooLarge && f.Kind != fault.Exhausted {
				t.Errorf("kind %v", f.Kind)
			}
		})
	}
}

func TestEveryReasonHasItsWordAndIsCounted(t *testing.T) {
	words := map[Reason]string{
		Eligible: "eligible", Inactive: "not_active", Draining: "draining", Unhealthy: "unhealthy",
		LacksCapability: "capability_missing", BodyTooLarge: "body_too_large", WindowTooSmall: "window_too_small",
		Unwanted: "not_wanted", Excluded: "already_failed", BreakerOpen: "breaker_open", Busy: "full",
		NotOffered: "not_offered", Degraded: "degraded", NotVerified: "not_verified", Outranked: "second_tier",
	}
	if len(words) != int(reasons) {
		t.Fatalf("words for %d reasons: got %d, want %d", reasons, len(words), int(reasons))
	}
	b := setup()
	b.report("hub", session(1, func(s *presence.Session) { s.Active = false }),
		session(2, func(s *presence.Session) { s.Draining = true }),
		session(3, func(s *presence.Session) { s.Offers[0].Healthy = false }),
		session(4, func(s *presence.Session) { s.Capabilities = nil }),
		session(5, func(s *presence.Session) { s.MaxRequestBytes = 1 }),
		session(6, func(s *presence.Session) { s.Offers[0].Window = 1 }),
		session(7), session(8), session(9), session(10, full),
		session(11, func(s *presence.Session) { s.Offers[0].Model = "k" }), session(12), session(13), session(14))
	b.say(14, in(trust.Shut))
	b.fail(id(9), breaker.Threshold)
	rec := b.known.Get(health.Pair{Provider: id(12), Model: "m"})
	for i := range window.Enough {
		rec.Window.Record(window.Sample{At: start, Account: tag.Account(i)})
	}
	passed := map[int]Reason{1: Inactive, 2: Draining, 3: Unhealthy, 4: LacksCapability, 5: BodyTooLarge,
		6: WindowTooSmall, 7: Unwanted, 8: Excluded, 9: BreakerOpen, 10: Busy, 12: Degraded, 14: NotVerified}
	for range 64 { // the degraded one leads some
		r := b.request(func(r *Request) { r.Prefer.Ignore, r.Exclude = []string{id(7)}, []string{id(8)} })
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		c.Candidates[0].Seat.Slots.Cancel(r.ID)
	}
	for _, wanted := range []func(*Request){
		func(r *Request) { r.Pin = id(11) },
		func(r *Request) { r.Prefer.Only = []string{id(11), id(99)} },
	} {
		if _, err := b.Select(t.Context(), b.request(wanted)); err == nil {
			t.Fatal("served by who does not offer the model")
		}
	}
	for n, why := range passed {
		got := b.deps.Stats.Of(id(n))
		if got[why] == 0 {
			t.Errorf("%s: rejects: got 0, want any but 0", words[why])
		}
		if why.String() != words[why] {
			t.Errorf("why: got %q, want %q", why.String(), words[why])
		}
	}
	if got := b.deps.Stats.Of(id(11)); got[NotOffered] != 2 {
		t.Errorf("rejects: got[NotOffered]: got %d, want 2", got[NotOffered])
	} else if NotOffered.String() != "not_offered" {
		t.Errorf(`NotOffered: got %q, want "not_offered"`, NotOffered.String())
	}
	first, probed := b.deps.Stats.Chosen(id(13))["m"], b.deps.Stats.Chosen(id(12))["m"]
	if first+probed != 64 {
		t.Errorf("and %d chosen of 64: first+probed: got %d, want 64", probed, first+probed)
	} else if first < 32 {
		t.Errorf("and %d chosen of 64: first: got %d, want at least 32", probed, first)
	}
	if got := b.deps.Stats.Of(id(12))[Degraded]; got != first {
		t.Errorf("the degraded one was passed over: got %d, want %d", got, first)
	}
}

func TestAProviderThatIsNotConnectedHasNoRejects(t *testing.T) {
	b := setup()
	b.report("hub", session(1))
	if _, err := b.Select(t.Context(), b.request(func(r *Request) { r.Prefer.Only = []string{id(99)} })); err == nil {
		t.Fatal("served by who is not connected")
	}
	if got := b.deps.Stats.Of(id(99)); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

func TestStatsAreBoundedAndMakeRoom(t *testing.T) {
	stats := &Stats{}
	for n := range maxTallied + 100 {
		stats.reject(fmt.Sprint("p", n), Busy)
		stats.choose(fmt.Sprint("p", n), "m")
	}
	if n := stats.size.Load(); n != maxTallied {
		t.Errorf("providers told apart: got %d, want %d", n, maxTallied)
	}
	if got := stats.Totals()[Busy]; got != maxTallied+100 {
		t.Errorf("rejects in all: got %d, want %d", got, maxTallied+100)
	}
	for n := range maxChosen {
		stats.choose("p1", fmt.Sprint("m", n))
	}
	if n := stats.pairs.Load(); n != maxChosen {
		t.Errorf("pairs counted: got %d, want %d", n, maxChosen)
	}
	stats.choose("p2", "m")
	if got := stats.Chosen("p2")["m"]; got != 2 {
		t.Errorf("chosen: got %d times, want 2: what is known goes on", got)
	}
	stats.Trim(func(provider string) bool { return provider == "p2" })
	if n, pairs := stats.size.Load(), stats.pairs.Load(); n != 1 {
		t.Errorf("%d providers and %d pairs are left of one that is online: stats.size.Load(): got %d, want 1", n, pairs, n)
	} else if pairs != 1 {
		t.Errorf("%d providers and %d pairs are left of one that is online: pairs: got %d, want 1", n, pairs, pairs)
	}
	stats.Trim(func(string) bool { return false })
	if stats.Chosen("p2") == nil {
		t.Error("forgotten although there is room")
	}
}

func TestOnlyModelsThatSomebodyKnowsAreDemand(t *testing.T) {
	takes := func(s *presence.Session) { s.TakesWarmups = true }
	for name, tc := range map[string]struct {
		before func(*bundle)
		want   bool
	}{
		"in the catalog": {func(b *bundle) { b.catalog["m"] = 1000 }, true},
		"offered":        {func(b *bundle) { b.report("hub", session(1, takes, full)) }, true},
		"made up":        {func(*bundle) {}, false},
	} {
		b := setup()
		tc.before(b)
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		_, err := b.Select(ctx, b.request())
		cancel()
		if err == nil {
			t.Fatalf("%s: served", name)
		}
		b.report("hub", session(1, takes))
		asked := 0
		for at := time.Duration(0); at < 30*time.Minute; at += time.Second {
			asked += len(b.deps.Warm.Plan(start.Add(at)))
		}
		if (asked > 0) != tc.want {
			t.Errorf("%s: warm-ups: asked > 0: got %t, want %t", name, asked > 0, tc.want)
		}
	}
}
