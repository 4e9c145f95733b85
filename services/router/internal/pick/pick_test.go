package pick

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/retry"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/trust"
	"svc.internal/services/router/internal/warmup"
	"svc.internal/services/router/internal/window"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// names answers for the directory: every provider in it exists.
type names struct {
	exist []string
	err   error
	asked int
}

func (n *names) Exists(_ context.Context, provider string) (bool, error) {
	n.asked++
	return slices.Contains(n.exist, provider), n.err
}

type bundle struct {
	*Picker
	view     *presence.View
	known    *health.Registry
	trust    *trust.Registry
	clock    *clock.Manual
	names    *names
	catalog  map[string]int64
	revision uint64
	requests int
}

func setup() *bundle {
	b := &bundle{known: health.New(), clock: clock.NewManual(start), names: &names{}, catalog: map[string]int64{}}
	waitlist := NewWaitlist()
	b.view, b.trust = presence.New(waitlist.Wake), trust.New(waitlist.Wake)
	b.Picker = New(Deps{
		View: b.view, Health: b.known, Trust: b.trust, Directory: b.names, Clock: b.clock,
		Windows: func(m string) int64 { return b.catalog[m] }, Seed: [2]uint64{1, 2},
		Waitlist: waitlist, Stats: &Stats{}, Warm: warmup.New(b.view, b.trust, [2]uint64{3, 4}), Retries: &retry.Budget{},
	})
	return b
}

// id is the provider id with this number.
func id(n int) string { return fmt.Sprintf("0192f0c0-0000-7000-8000-%012x", n) }

// session is a provider's that serves model m with 10 slots and a window of
// 1,000 tokens; change may alter it.
func session(n int, change ...func(*presence.Session)) presence.Session {
	s := presence.Session{
		Provider: id(n), Node: "n", Epoch: int64(n), Active: true, Capabilities: []string{"chat", "stream"},
		Offers: []presence.Offer{{Model: "m", Healthy: true, Window: 1000, Capacity: 10}},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// report tells the view of sessions on a hub.
func (b *bundle) report(hub string, sessions ...presence.Session) {
	b.revision++
	b.view.Apply(presence.Report{Hub: hub, Incarnation: 1, Address: hub, Revision: b.revision, Sessions: sessions},
		b.clock.Now())
}

func (b *bundle) request(change ...func(*Request)) *Request {
	b.requests++
	r := &Request{ID: fmt.Sprint("r", b.requests), Model: "m", PromptTokens: 100, BodyBytes: 1000,
		Capabilities: []string{"chat"}}
	for _, c := range change {
		c(r)
	}
	return r
}

// fail has a provider fail requests, each of another account.
func (b *bundle) fail(provider string, times int) {
	for i := range times {
		b.Ended(Attempt{Request: "other", Provider: provider, Node: "n", Model: "m", Outcome: Failed,
			Account: tag.Account(i + 1)})
	}
}

// full is a session without a free slot.
func full(s *presence.Session) { s.Offers[0].InFlight = s.Offers[0].Capacity }

func chosen(c Choice) []string {
	var out []string
	for _, x := range c.Candidates {
		out = append(out, x.Seat.Session.Provider)
	}
	return out
}

func wantReason(t *testing.T, err error, reason fault.Reason) {
	t.Helper()
	if !fault.Is(err, reason) {
		t.Fatalf("got %v, want %s", err, reason)
	}
}

func TestCandidatesAreDifferentProvidersAndAtMostThree(t *testing.T) {
	for providers := 1; providers <= 5; providers++ {
		b := setup()
		for n := range providers {
			b.report("hub", session(n+1), session(n+1, func(s *presence.Session) { s.Node, s.Epoch = "second", int64(100+n) }))
		}
		c, err := b.Select(t.Context(), b.request())
		if err != nil {
			t.Fatal(err)
		}
		got := chosen(c)
		slices.Sort(got)
		if len(slices.Compact(got)) != min(providers, MaxCandidates) {
			t.Errorf("len(slices.Compact(got)): got %d, want %d", len(slices.Compact(got)), min(providers, MaxCandidates))
		} else if len(c.Candidates) != min(providers, MaxCandidates) {
			t.Errorf("len(c.Candidates): got %d, want %d", len(c.Candidates), min(providers, MaxCandidates))
		}
	}
}

func TestAnIneligibleSeatIsNeverPicked(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		b := setup()
		b.catalog["m"] = int64(random.IntN(2)) * 500
		n := 1 + random.IntN(12)
		if round%10 == 0 {
			n = sampleAbove + 100
		}
		for i := range n {
			b.report(fmt.Sprint("hub", i%3), session(i+1, func(s *presence.Session) {
				s.Active, s.Draining = random.IntN(8) > 0, random.IntN(8) == 0
				s.Offers[0].Healthy = random.IntN(8) > 0
				s.Offers[0].Window = []int64{0, 150, 1000}[random.IntN(3)]
				s.Offers[0].Capacity, s.Offers[0].InFlight = 4, random.IntN(5)
				s.MaxRequestBytes = []int64{0, 500, 5000}[random.IntN(3)]
				s.Capabilities = [][]string{{"chat"}, {"chat", "stream"}, {"stream"}}[random.IntN(3)]
			}))
			if random.IntN(6) == 0 {
				b.fail(id(i+1), breaker.Threshold)
			}
			if random.IntN(3) == 0 {
				b.say(i+1, trust.Opinion{Trust: 1, Lane: trust.Lane(random.IntN(3)), Window: int64(random.IntN(3)) * 150})
			}
		}
		req := b.request(func(r *Request) {
			r.MaxTokens = int64(random.IntN(2)) * 100
			r.Exclude = []string{id(1 + random.IntN(n))}
		})
		free := map[string]bool{}
		for _, s := range b.view.Seats("m") {
			load, limit := s.Slots.Usage(start)
			free[s.Session.Provider] = load < limit
		}
		c, err := b.look(req, true)
		if err != nil {
			continue
		}
		for _, x := range c.Candidates {
			s, o := x.Seat.Session, x.Seat.Offer
			opinion := b.trust.Of(s.Provider, "m")
			w := o.Window
			if window := b.catalog["m"]; w == 0 || window > 0 && w > window && opinion.Window == 0 {
				w = window
			}
			if opinion.Window > 0 && (w == 0 || opinion.Window < w) {
				w = opinion.Window
			}
			rec := b.known.Find(health.Pair{Provider: s.Provider, Model: "m"})
			if opinion.Lane == trust.Shut {
				t.Fatalf("round %d: %s was picked, want nobody who is shut", round, s.Provider)
			}
			if !s.Active || s.Draining || !o.Healthy || w > 0 && req.PromptTokens+req.MaxTokens > w ||
				s.MaxRequestBytes > 0 && req.BodyBytes > s.MaxRequestBytes || !slices.Contains(s.Capabilities, "chat") ||
				slices.Contains(req.Exclude, s.Provider) || !free[s.Provider] || x.Window != w ||
				rec != nil && rec.Breaker.State(start) == breaker.Open {
				t.Fatalf("round %d: %+v %+v was picked for %+v", round, *s, *o, *req)
			}
		}
	}
}

func TestEqualProvidersShareTheLoad(t *testing.T) {
	for _, providers := range []int{10, sampleAbove + 108} {
		b := setup()
		const picks, perProvider = 10_000, 1200
		for n := range providers {
			b.report("hub", session(n+1, func(s *presence.Session) { s.Offers[0].Capacity = perProvider }))
		}
		count := map[string]int{}
		for range picks {
			c, err := b.Select(t.Context(), b.request())
			if err != nil {
				t.Fatal(err)
			}
			count[c.Candidates[0].Seat.Session.Provider]++
		}
		fair := picks / providers
		for n := range providers {
			if got := count[id(n+1)]; got < fair-max(fair/10, 6) || got > fair+max(fair/10, 6) {
				t.Errorf("of %d providers number %d: got %d, want %d to %d", providers, n+1, got, fair-max(fair/10, 6),
					fair+max(fair/10, 6))
			}
		}
	}
}

func TestAMoreSuccessfulProviderGetsMore(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2))
	for i := range 20 {
		second := Served
		if i%5 == 0 {
			second = Failed
		}
		for n, outcome := range map[int]Outcome{1: Served, 2: second} {
			b.Ended(Attempt{Request: "x", Account: tag.Account(i), Provider: id(n), Model: "m", Outcome: outcome,
				FirstContent: time.Second, Duration: time.Second})
		}
	}
	count := map[string]int{}
	for range 100 {
		r := b.request()
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		count[c.Candidates[0].Seat.Session.Provider]++
		s := c.Candidates[0].Seat.Session
		b.Ended(Attempt{Request: r.ID, Provider: s.Provider, Node: s.Node, Epoch: s.Epoch, Model: "m"})
	}
	if count[id(1)] <= count[id(2)] {
		t.Errorf("picks: got %d, want more than %d", count[id(1)], count[id(2)])
	}
}

func TestDegradedProvidersLeadOnlyProbes(t *testing.T) {
	b := setup()
	b.report("hub", session(1, func(s *presence.Session) { s.Offers[0].Capacity = 4000 }), session(2))
	rec := b.known.Get(health.Pair{Provider: id(2), Model: "m"})
	for i := range window.Enough {
		rec.Window.Record(window.Sample{At: start, Account: tag.Account(i)})
	}
	led := 0
	const picks = 3200
	for range picks {
		r := b.request()
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if first := c.Candidates[0].Seat; first.Session.Provider == id(2) {
			led++
			first.Slots.End(r.ID, start, start)
		} else if len(c.Candidates) != 2 {
			t.Fatalf("candidates, with the degraded provider the last: got %d, want 2", len(c.Candidates))
		}
	}
	if fair := picks / ProbeOneIn; led < fair/2 || led > fair*2 {
		t.Errorf("the degraded provider led, of %d: got %d, want %d to %d", picks, led, fair/2, fair*2)
	}
	b.report("hub", session(1, func(s *presence.Session) { s.Active = false }))
	if c, err := b.Select(t.Context(), b.request()); err != nil {
		t.Errorf("nobody else is online: got the error %v, want none", err)
	} else if chosen(c)[0] != id(2) {
		t.Errorf("nobody else is online: chosen(c)[0]: got %q, want %q", chosen(c)[0], id(2))
	}
}

func TestAHalfOpenBreakerGetsOneProbe(t *testing.T) {
	b := setup()
	b.report("hub", session(1))
	b.fail(id(1), breaker.Threshold)
	_, err := b.Select(t.Context(), b.request())
	wantReason(t, err, fault.NoProviderOnline)
	b.clock.Advance(breaker.FirstRest)
	if _, err := b.Select(t.Context(), b.request()); err != nil {
		t.Fatal(err)
	}
	_, err = b.Select(t.Context(), b.request())
	wantReason(t, err, fault.NoProviderOnline)
	b.Ended(Attempt{Provider: id(1), Model: "m", Outcome: Served})
	if _, err := b.Select(t.Context(), b.request()); err != nil {
		t.Errorf("after a served probe: %v", err)
	}
	if b.deps.Stats.Of(id(1))[BreakerOpen] != 2 {
		t.Errorf("rejects: got %d, want 2", b.deps.Stats.Of(id(1))[BreakerOpen])
	}
}

func TestNeutralAndTurnedAwayAttemptsLeaveHealthAlone(t *testing.T) {
	b := setup()
	b.report("hub", session(1))
	for range 50 {
		b.Ended(Attempt{Request: "x", Provider: id(1), Node: "n", Epoch: 1, Model: "m", Outcome: Neutral})
		b.Ended(Attempt{Request: "x", Provider: id(1), Node: "n", Epoch: 1, Model: "m", Outcome: TurnedAway})
	}
	if b.known.Len() != 0 {
		t.Errorf("health was recorded: got %d, want 0", b.known.Len())
	}
	if _, limit := b.view.Seats("m")[0].Slots.Usage(start); limit != 5 {
		t.Errorf("learnt capacity: got %d, want 5 of 10", limit)
	}
}

func TestTheCallersOwnHubWinsAmongEquals(t *testing.T) {
	b := setup()
	b.report("far", session(1, func(s *presence.Session) { s.Offers[0].Capacity = 4000 }))
	b.report("near", session(2, func(s *presence.Session) { s.Offers[0].Capacity = 4000 }))
	for range 50 {
		c, err := b.Select(t.Context(), b.request(func(r *Request) { r.NearHub = "near" }))
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if c.Candidates[0].Seat.Hub != "near" {
			t.Fatalf(`c.Candidates[0].Seat.Hub: got %q, want "near"`, c.Candidates[0].Seat.Hub)
		}
	}
}

func TestARefusalNamesWhatTheCallerCanMend(t *testing.T) {
	big := func(r *Request) { r.BodyBytes = 1 << 20 }
	small := func(s *presence.Session) { s.MaxRequestBytes = 1 << 10 }
	for name, tc := range map[string]struct {
		sessions []presence.Session
		req      func(*Request)
		want     fault.Reason
	}{
		"nobody": {nil, func(*Request) {}, fault.NoProviderOnline},
		"draining": {[]presence.Session{session(1, func(s *presence.Session) { s.Draining = true })}, func(*Request) {},
			fault.NoProviderOnline},
		"prompt": {[]presence.Session{session(1)}, func(r *Request) { r.PromptTokens = 1001 },
			fault.ContextLengthExceeded},
		"answer": {[]presence.Session{session(1)}, func(r *Request) { r.MaxTokens = 901 },
			fault.ContextLengthExceeded},
		"body": {[]presence.Session{session(1, small)}, big, fault.RequestTooLarge},
		"body, window": {[]presence.Session{session(1, small)}, func(r *Request) { big(r); r.PromptTokens = 9999 },
			fault.RequestTooLarge},
		"capability": {[]presence.Session{session(1)}, func(r *Request) { r.Capabilities = []string{"logprobs"} },
			fault.NoProviderOnline},
		"endpoint, body": {[]presence.Session{session(1, small)},
			func(r *Request) { big(r); r.Capabilities = []string{"transcriptions"} }, fault.NoProviderOnline},
		"body, endpoint": {[]presence.Session{session(1),
			session(2, small, func(s *presence.Session) { s.Capabilities = []string{"transcriptions"} })},
			func(r *Request) { big(r); r.Capabilities = []string{"transcriptions"} }, fault.RequestTooLarge},
		"unknown name": {[]presence.Session{session(1)}, func(r *Request) { r.Capabilities = []string{"chat", "telepathy"} },
			fault.NoProviderOnline},
		"excluded": {[]presence.Session{session(1)}, func(r *Request) { r.Exclude = []string{id(1)} },
			fault.NoProviderOnline},
		"fits apart": {[]presence.Session{session(1, func(s *presence.Session) { s.Offers[0].Window = 50 }),
			session(2, func(s *presence.Session) { s.Capabilities = nil })},
			func(*Request) {}, fault.NoProviderOnline},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup()
			b.report("hub", tc.sessions...)
			_, err := b.Select(t.Context(), b.request(tc.req))
			wantReason(t, err, tc.want)
			f, _ := fault.As(err)
			if tc.want == fault.ContextLengthExceeded && f.Meta["max_context_length"] != "1000" {
				t.Errorf("metadata %v", f.Meta)
			}
			if tc.want == fault.NoProviderOnline && f.RetryAfter != offlineRetry {
				t.Errorf("retry after %v", f.RetryAfter)
			}
		})
	}
}

func TestASilentProviderHasTheCatalogsWindow(t *testing.T) {
	b := setup()
	silent := session(1, func(s *presence.Session) { s.Offers[0].Window = 0 })
	b.report("hub", silent)
	huge := func(r *Request) { r.PromptTokens = 1 << 30 }
	if c, err := b.Select(t.Context(), b.request(huge)); err != nil {
		t.Errorf("without a catalog: got the error %v, want none", err)
	} else if c.Candidates[0].Window != 0 {
		t.Errorf("without a catalog: c.Candidates[0].Window: got %d, want 0", c.Candidates[0].Window)
	}
	b.catalog["m"] = 2000
	switch c, err := b.Select(t.Context(), b.request()); {
	case err != nil:
		t.Errorf("with a catalog: got the error %v, want none", err)
	case c.Candidates[0].Window != 2000:
		t.Errorf("with a catalog: c.Candidates[0].Window: got %d, want 2000", c.Candidates[0].Window)
	case c.Candidates[0].Source != contextwindow.Catalog:
		t.Errorf("with a catalog: c.Candidates[0].Source: got %d, want %d", c.Candidates[0].Source, contextwindow.Catalog)
	}
	_, err := b.Select(t.Context(), b.request(huge))
	wantReason(t, err, fault.ContextLengthExceeded)
}

func TestAClaimedWindowCountsNoFurtherThanTheCatalogs(t *testing.T) {
	b := setup()
	b.catalog["m"] = 2000
	for claim, want := range map[int64]struct {
		window int64
		source contextwindow.Source
	}{
		1500: {1500, contextwindow.Reported}, 2000: {2000, contextwindow.Reported},
		2001: {2000, contextwindow.Catalog}, 1 << 30: {2000, contextwindow.Catalog},
	} {
		b.report("hub", session(1, func(s *presence.Session) { s.Offers[0].Window = claim }))
		c, err := b.Select(t.Context(), b.request())
		if err != nil || c.Candidates[0].Window != want.window || c.Candidates[0].Source != want.source {
			t.Errorf("claimed %d: got %+v, %v, want %+v", claim, c, err, want)
		}
		_, err = b.Select(t.Context(), b.request(func(r *Request) { r.PromptTokens = want.window + 1 }))
		wantReason(t, err, fault.ContextLengthExceeded)
	}
}

func TestTheAttemptsEndFreesTheBookedSlot(t *testing.T) {
	b := setup()
	b.report("hub", session(1, func(s *presence.Session) { s.Offers[0].Capacity = 1 }))
	first := b.request()
	if _, err := b.Select(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := b.look(b.request(), true); !errors.Is(err, errBusy) {
		t.Fatalf("once the slot is booked: got the error %v, want %v", err, errBusy)
	}
	b.Ended(Attempt{Request: first.ID, Provider: id(1), Node: "n", Epoch: 1, Model: "m", Outcome: Served})
	if _, err := b.look(b.request(), true); err != nil {
		t.Errorf("the slot is not free again: %v", err)
	}
}

func BenchmarkSelect(b *testing.B) {
	for _, sessions := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint(sessions), func(b *testing.B) {
			s := setup()
			for n := range sessions {
				s.report("hub", session(n+1, func(s *presence.Session) { s.Offers[0].Capacity = 4000 }))
				for range 3 {
					s.Ended(Attempt{Provider: id(n + 1), Model: "m", Outcome: Served, FirstContent: time.Second})
				}
			}
			req := s.request()
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				req.ID = "r"
				c, err := s.Select(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				c.Candidates[0].Seat.Slots.Cancel("r")
			}
		})
	}
}
