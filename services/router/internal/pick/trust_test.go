package pick

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/trust"
)

// say lets the verifier say something of model m of a provider. Each call is newer than
// all before it.
func (b *bundle) say(provider int, o trust.Opinion) {
	b.revision++
	o.Model, o.Revision = "m", int64(b.revision)
	b.trust.Apply(trust.Report{Provider: id(provider), Revision: o.Revision, Opinions: []trust.Opinion{o}})
}

// opinion is the word on a provider of which nothing bad was found.
func opinion(change ...func(*trust.Opinion)) trust.Opinion {
	o := trust.Opinion{Trust: 1}
	for _, c := range change {
		c(&o)
	}
	return o
}

func in(lane trust.Lane) trust.Opinion {
	return opinion(func(o *trust.Opinion) { o.Lane = lane })
}

func measured(window int64) trust.Opinion {
	return opinion(func(o *trust.Opinion) { o.Window = window })
}

// led counts how often a provider leads in n choices among free providers.
func (b *bundle) led(t *testing.T, provider, n int, change ...func(*Request)) int {
	t.Helper()
	count := 0
	for range n {
		r := b.request(change...)
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if chosen(c)[0] == id(provider) {
			count++
		}
		c.Candidates[0].Seat.Slots.Cancel(r.ID)
	}
	return count
}

func TestAModelThatIsShutIsNeverChosen(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1), session(2))
	b.say(1, in(trust.Shut))
	for range 100 {
		r := b.request()
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := chosen(c); !slices.Equal(got, []string{id(2)}) {
			t.Fatalf("candidates: got %q, want %q alone", got, id(2))
		}
		c.Candidates[0].Seat.Slots.Cancel(r.ID)
	}
	if got := b.deps.Stats.Of(id(1))[NotVerified]; got != 100 {
		t.Errorf("passed over as not_verified: got %d, want 100", got)
	}
	// Neither an order nor a list of who alone may serve opens it.
	if led := b.led(t, 1, 20, func(r *Request) { r.Prefer.Order = []string{id(1)} }); led != 0 {
		t.Errorf("led, first in the order: got %d, want 0", led)
	}
	_, err := b.Select(t.Context(), b.request(func(r *Request) { r.Prefer.Only = []string{id(1)} }))
	wantReason(t, err, fault.NoProviderOnline)
}

func TestOnlyTheModelThatIsShutGetsNoRequests(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1, func(s *presence.Session) {
		s.Offers = append(s.Offers, presence.Offer{Model: "k", Healthy: true, Window: 1000, Capacity: 10})
	}))
	b.trust.Apply(trust.Report{Provider: id(1), Revision: 1, Opinions: []trust.Opinion{
		{Model: "k", Trust: 1, Revision: 1}, {Model: "m", Trust: 1, Lane: trust.Shut, Revision: 1}}})
	b.revision = 1
	if _, err := b.Select(t.Context(), b.request(func(r *Request) { r.Model = "k" })); err != nil {
		t.Errorf("the other model: got the error %v, want none", err)
	}
	_, err := b.Select(t.Context(), b.request())
	wantReason(t, err, fault.NoProviderOnline)
	b.say(1, in(trust.Main))
	if _, err := b.Select(t.Context(), b.request()); err != nil {
		t.Errorf("once it is open again: got the error %v, want none", err)
	}
}

func TestAPinToAModelThatIsShutIsUnavailable(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1), session(2))
	b.say(1, in(trust.Shut))
	_, err := b.Select(t.Context(), b.request(pinned(id(1), false)))
	wantReason(t, err, fault.RequestedProviderUnavailable)
	c, err := b.Select(t.Context(), b.request(pinned(id(1), true)))
	if err != nil {
		t.Fatal(err)
	}
	if c.Fallback != PinUnavailable {
		t.Errorf("fallback: got %d, want %d", c.Fallback, PinUnavailable)
	}
	if got := chosen(c); !slices.Equal(got, []string{id(2)}) {
		t.Errorf("candidates: got %q, want %q alone", got, id(2))
	}
}

// What a provider takes that serves nobody must not blame a request.
func TestTheWindowAndBodyOfAModelThatIsShutAreNobodys(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1, func(s *presence.Session) { s.Offers[0].Window, s.MaxRequestBytes = 9000, 9000 }),
		session(2, func(s *presence.Session) { s.MaxRequestBytes = 5000 }))
	b.say(1, in(trust.Shut))
	_, err := b.Select(t.Context(), b.request(func(r *Request) { r.PromptTokens = 1001 }))
	wantReason(t, err, fault.ContextLengthExceeded)
	f, _ := fault.As(err)
	if got := f.Meta["max_context_length"]; got != "1000" {
		t.Errorf("the largest window: got %q, want 1000", got)
	}
	_, err = b.Select(t.Context(), b.request(func(r *Request) { r.BodyBytes = 5001 }))
	wantReason(t, err, fault.RequestTooLarge)
}

func TestInACrowdTheWindowOfAModelThatIsShutIsNobodys(t *testing.T) {
	t.Parallel()
	b := setup()
	crowd := []presence.Session{session(1, func(s *presence.Session) { s.Offers[0].Window = 9000 })}
	for n := range sampleAbove {
		crowd = append(crowd, session(2+n))
	}
	b.report("hub", crowd...)
	b.say(1, in(trust.Shut))
	_, err := b.Select(t.Context(), b.request(func(r *Request) {
		r.PromptTokens, r.Prefer.Only = 1001, []string{id(2)}
	}))
	wantReason(t, err, fault.ContextLengthExceeded)
}

func TestAModelInTheProbeLaneIsTreatedAsDegraded(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1), session(2))
	b.say(1, in(trust.Probe))
	const picks = 3200
	if led := b.led(t, 1, picks); led < picks/ProbeOneIn/2 || led > picks/ProbeOneIn*2 {
		t.Errorf("led, of %d: got %d, want about %d", picks, led, picks/ProbeOneIn)
	}
	if got := b.deps.Stats.Of(id(1))[Degraded]; got == 0 {
		t.Error("passed over as degraded: got 0, want some")
	}
	c, err := b.Select(t.Context(), b.request(pinned(id(1), false)))
	if err != nil {
		t.Fatalf("with a pin: got the error %v, want none", err)
	}
	if chosen(c)[0] != id(1) {
		t.Errorf("with a pin: got %q, want %q", chosen(c)[0], id(1))
	}
	if led := b.led(t, 1, 20, func(r *Request) { r.Prefer.Order = []string{id(1)} }); led != 20 {
		t.Errorf("led, first in the order: got %d, want 20", led)
	}
	b.report("hub", session(2, func(s *presence.Session) { s.Draining = true }))
	if led := b.led(t, 1, 20); led != 20 {
		t.Errorf("led, alone: got %d, want 20", led)
	}
}

func TestLessTrustIsChosenLess(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*bundle){
		"little trust": func(b *bundle) { b.say(1, trust.Opinion{Trust: 0.5}) },
		"known beside unknown": func(b *bundle) {
			b.say(1, trust.Opinion{Trust: 0.8})
		},
	} {
		b := setup()
		b.report("hub", session(1), session(2))
		if led := b.led(t, 1, 200); led < 60 {
			t.Errorf("%s: led while both are unknown, of 200: got %d, want about 100", name, led)
		}
		arrange(b)
		if led := b.led(t, 1, 200); led != 0 {
			t.Errorf("%s: led while the better is free, of 200: got %d, want 0", name, led)
		}
	}
}

func TestGraceSparesUptimeUntilItsEnd(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1, func(s *presence.Session) { s.Uptime, s.UptimeKnown = 0.2, true }), session(2))
	b.say(1, opinion(func(o *trust.Opinion) { o.GraceUntil = start.Add(time.Hour) }))
	if led := b.led(t, 1, 200); led < 60 {
		t.Errorf("led in the time of grace, of 200: got %d, want about 100", led)
	}
	b.clock.Advance(time.Hour)
	b.report("hub", session(1, func(s *presence.Session) { s.Uptime, s.UptimeKnown = 0.2, true }), session(2))
	if led := b.led(t, 1, 200); led != 0 {
		t.Errorf("led after it, of 200: got %d, want 0", led)
	}
}

func TestTheMeasuredWindowIsTheWindow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reported, measured, want int64
		source                   contextwindow.Source
	}{
		"a cap":                          {1000, 300, 300, contextwindow.Measured},
		"as reported":                    {1000, 5000, 1000, contextwindow.Measured},
		"above the catalog's, confirmed": {4000, 4000, 4000, contextwindow.Measured},
		"above the catalog's, less":      {4000, 3000, 3000, contextwindow.Measured},
		"silent, a cap":                  {0, 300, 300, contextwindow.Measured},
		"above the catalog's, unknown":   {4000, 0, 2000, contextwindow.Catalog},
	} {
		b := setup()
		b.catalog["m"] = 2000
		b.report("hub", session(1, func(s *presence.Session) { s.Offers[0].Window = c.reported }))
		b.say(1, measured(c.measured))
		got, err := b.Select(t.Context(), b.request(func(r *Request) { r.PromptTokens = c.want }))
		if err != nil {
			t.Errorf("%s: a prompt that fits: got the error %v, want none", name, err)
			continue
		}
		if got.Candidates[0].Window != c.want {
			t.Errorf("%s: window: got %d, want %d", name, got.Candidates[0].Window, c.want)
		}
		if got.Candidates[0].Source != c.source {
			t.Errorf("%s: source: got %d, want %d", name, got.Candidates[0].Source, c.source)
		}
		_, err = b.Select(t.Context(), b.request(func(r *Request) { r.PromptTokens = c.want + 1 }))
		wantReason(t, err, fault.ContextLengthExceeded)
	}
}

func TestACapSurvivesANewSessionAndALargerClaim(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1))
	b.say(1, measured(300))
	b.report("other hub", session(1, func(s *presence.Session) {
		s.Node, s.Epoch, s.Offers[0].Window = "another", 99, 1<<30
	}))
	for range 20 {
		r := b.request()
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Candidates[0].Window; got != 300 {
			t.Fatalf("window: got %d, want 300", got)
		}
		c.Candidates[0].Seat.Slots.Cancel(r.ID)
	}
}

// The lane opens while a request waits for another provider.
func TestARequestThatWaitsHearsOfALaneThatOpens(t *testing.T) {
	t.Parallel()
	b := setup()
	b.report("hub", session(1), session(2, full))
	b.say(1, in(trust.Shut))
	done := make(chan Choice, 1)
	go func() {
		for {
			c, err := b.Select(t.Context(), b.request())
			if err == nil || !fault.Is(err, fault.ProvidersBusy) {
				done <- c
				return
			}
		}
	}()
	for b.deps.Waitlist.Waiting() == 0 {
		select {
		case c := <-done:
			t.Fatalf("candidates before the lane opens: got %q, want none", chosen(c))
		default:
			runtime.Gosched()
		}
	}
	b.say(1, in(trust.Main))
	if got := chosen(<-done); !slices.Equal(got, []string{id(1)}) {
		t.Errorf("candidates: got %q, want %q alone", got, id(1))
	}
}

// A crowd is sampled instead of walked, and the rules are the same.
func TestInACrowdNobodyIsChosenWhoIsShut(t *testing.T) {
	t.Parallel()
	b := setup()
	const providers = sampleAbove + 108
	var crowd []presence.Session
	for n := range providers {
		crowd = append(crowd, session(n+1))
	}
	b.report("hub", crowd...)
	for n := range providers {
		if n%2 == 0 {
			b.say(n+1, in(trust.Shut))
		}
	}
	for range 200 {
		r := b.request()
		c, err := b.Select(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range c.Candidates {
			if b.trust.Shut(x.Seat.Session.Provider, "m") {
				t.Fatalf("%s was chosen, want nobody who is shut", x.Seat.Session.Provider)
			}
		}
		c.Candidates[0].Seat.Slots.Cancel(r.ID)
	}
}
