package pick

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/window"
)

func preferring(p Preferences) func(*Request) { return func(r *Request) { r.Prefer = p } }

func quantized(q string) func(*presence.Session) {
	return func(s *presence.Session) { s.Offers[0].Quantization = q }
}

func TestAnOrderIsKeptWhateverTheScores(t *testing.T) {
	b := setup()
	for n := range sampleAbove + 50 {
		b.report("hub", session(n+1))
	}
	b.fail(id(7), 2)
	for range 50 {
		c, err := b.Select(t.Context(), b.request(preferring(Preferences{Order: []string{id(9), id(999), id(7)}})))
		if err != nil {
			t.Fatal(err)
		}
		switch got := chosen(c); {
		case len(got) != 3:
			t.Fatalf("candidates: len(got): got %d, want 3, in %v", len(got), got)
		case got[0] != id(9):
			t.Fatalf("candidates: got[0]: got %q, want %q", got[0], id(9))
		case got[1] != id(7):
			t.Fatalf("candidates: got[1]: got %q, want %q", got[1], id(7))
		case got[2] == id(9):
			t.Fatalf("candidates: got[2]: got %q, want any but %q", got[2], id(9))
		case got[2] == id(7):
			t.Fatalf("candidates: got[2]: got %q, want any but %q", got[2], id(7))
		}
		b.Ended(Attempt{Request: fmt.Sprint("r", b.requests), Provider: id(9), Node: "n", Epoch: 9, Model: "m",
			Outcome: Neutral})
	}
}

func TestADegradedProviderKeepsItsPlaceInAnOrder(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2), session(3))
	rec := b.known.Get(health.Pair{Provider: id(2), Model: "m"})
	for i := range window.Enough {
		rec.Window.Record(window.Sample{At: start, Account: tag.Account(i)})
	}
	for range 40 {
		c, err := b.Select(t.Context(), b.request(preferring(Preferences{Order: []string{id(2)}})))
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if chosen(c)[0] != id(2) {
			t.Fatalf("chosen(c)[0]: got %q, want %q", chosen(c)[0], id(2))
		}
		b.Ended(Attempt{Request: fmt.Sprint("r", b.requests), Provider: id(2), Node: "n", Epoch: 2, Model: "m",
			Outcome: Neutral})
	}
	b.fail(id(2), breaker.Threshold)
	c, err := b.Select(t.Context(), b.request(preferring(Preferences{Order: []string{id(2)}})))
	if err != nil {
		t.Errorf("behind an open breaker: got the error %v, want none", err)
	} else if slices.Contains(chosen(c), id(2)) {
		t.Errorf("behind an open breaker: chosen(c): got %q, want it without %q", chosen(c), id(2))
	}
}

// A half-open breaker lets one request through, as a primary.
func TestAHalfOpenBreakerIsNoAlternateOfAnOrder(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2), session(3))
	b.fail(id(2), breaker.Threshold)
	for range 60 { // however long it opens for
		b.clock.Advance(time.Minute)
		if _, probe := b.known.Find(health.Pair{Provider: id(2), Model: "m"}).Breaker.Admits(0, b.clock.Now()); probe {
			break
		}
		b.report("hub", session(1), session(2), session(3))
	}
	b.report("hub", session(1), session(2), session(3))
	c, err := b.Select(t.Context(), b.request(preferring(Preferences{Order: []string{id(1), id(2)}})))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case chosen(c)[0] != id(1):
		t.Errorf("chosen(c)[0]: got %q, want %q", chosen(c)[0], id(1))
	case slices.Contains(chosen(c), id(2)):
		t.Errorf("chosen(c): got %q, want it without %q", chosen(c), id(2))
	}
}

func TestNobodyServesWhoIsNotWanted(t *testing.T) {
	cases := map[string]struct {
		prefer Preferences
		want   []string
	}{
		"only":                  {Preferences{Only: []string{id(2), id(3)}}, []string{id(2), id(3)}},
		"ignore":                {Preferences{Ignore: []string{id(2), id(77)}}, []string{id(1), id(3)}},
		"only but ignored":      {Preferences{Only: []string{id(1), id(2)}, Ignore: []string{id(2)}}, []string{id(1)}},
		"quantization":          {Preferences{Quantizations: []string{"FP8"}}, []string{id(2)}},
		"unknown quantization":  {Preferences{Quantizations: []string{"unknown", "fp16"}}, []string{id(1), id(3)}},
		"order does not widen":  {Preferences{Order: []string{id(1)}, Only: []string{id(2)}}, []string{id(2)}},
		"nobody":                {Preferences{Only: []string{id(77)}}, nil},
		"ignored to the last":   {Preferences{Ignore: []string{id(1), id(2), id(3)}}, nil},
		"nobody so quantized":   {Preferences{Quantizations: []string{"int4"}}, nil},
		"sorted, none measured": {Preferences{Sort: ByLatency, Ignore: []string{id(3)}}, []string{id(1), id(2)}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := setup()
			b.report("hub", session(1, quantized("fp16")), session(2, quantized("fp8")), session(3))
			for range 20 {
				got, err := b.Select(t.Context(), b.request(preferring(c.prefer)))
				if len(c.want) == 0 {
					wantReason(t, err, fault.NoProviderOnline)
					return
				}
				ids := chosen(got)
				slices.Sort(ids)
				if err != nil {
					t.Fatalf("got the error %v, want none", err)
				}
				if !slices.Equal(ids, c.want) {
					t.Fatalf("ids: got %q, want %q", ids, c.want)
				}
				for _, p := range c.want {
					for n := range 3 {
						b.Ended(Attempt{Request: fmt.Sprint("r", b.requests), Provider: p, Node: "n", Epoch: int64(n + 1), Model: "m",
							Outcome: Neutral})
					}
				}
			}
			if got := b.deps.Stats.Totals()[Unwanted]; got == 0 {
				t.Error("nobody was counted as not wanted")
			}
		})
	}
}

func TestPreferencesHoldForAPinToo(t *testing.T) {
	b := setup()
	b.report("hub", session(1, quantized("fp16")), session(2, quantized("fp8")))
	prefer := preferring(Preferences{Quantizations: []string{"fp8"}})
	_, err := b.Select(t.Context(), b.request(pinned(id(1), false), prefer))
	wantReason(t, err, fault.RequestedProviderUnavailable)
	c, err := b.Select(t.Context(), b.request(pinned(id(1), true), prefer))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case c.Fallback != PinUnavailable:
		t.Errorf("c.Fallback: got %d, want %d", c.Fallback, PinUnavailable)
	case !slices.Equal(chosen(c), []string{id(2)}):
		t.Errorf("chosen(c): got %q, want %q", chosen(c), []string{id(2)})
	}
}

func TestASortPutsTheBestFirstAndTheUnmeasuredLast(t *testing.T) {
	for sort, want := range map[Sort][]string{ByThroughput: {id(3), id(2), id(1)}, ByLatency: {id(2), id(3), id(1)}} {
		b := setup()
		b.report("hub", session(1), session(2), session(3, func(s *presence.Session) { s.Offers[0].InFlight = 9 }))
		for n, sample := range map[int]window.Sample{
			2: {FirstContent: 100 * time.Millisecond, TokensPerSecond: 20}, 3: {FirstContent: time.Second, TokensPerSecond: 90},
		} {
			sample.At, sample.Served = start, true
			b.known.Get(health.Pair{Provider: id(n), Model: "m"}).Window.Record(sample)
		}
		c, err := b.Select(t.Context(), b.request(preferring(Preferences{Sort: sort})))
		if err != nil {
			t.Errorf("sort %d: got the error %v, want none", sort, err)
		} else if !slices.Equal(chosen(c), want) {
			t.Errorf("sort %d: chosen(c): got %q, want %q", sort, chosen(c), want)
		}
	}
}

// One that is wanted and busy is waited for, however idle the others are.
func TestAWantedProviderThatIsBusyIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup()
		b.report("hub", session(1, full), session(2))
		_, err := b.Select(t.Context(), b.request(preferring(Preferences{Only: []string{id(1)}})))
		wantReason(t, err, fault.ProvidersBusy)
	})
}
