package pick

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/window"
)

const many = 10_000

// crowd is a model with many seats, each of another provider; change may alter
// them by number.
func crowd(change func(n int, s *presence.Session)) *bundle {
	b := setup()
	sessions := make([]presence.Session, many)
	for i := range sessions {
		sessions[i] = session(i + 1)
		if change != nil {
			change(i+1, &sessions[i])
		}
	}
	b.report("hub", sessions...)
	return b
}

// measured gives a provider a latency and a speed that grow better with grade.
func (b *bundle) measured(provider string, grade int) {
	b.known.Get(health.Pair{Provider: provider, Model: "m"}).Window.Record(window.Sample{
		At: start, Served: true, FirstContent: time.Second / time.Duration(grade), TokensPerSecond: float64(grade),
	})
}

func TestTheOnlyOneThatIsWantedIsFoundAmongMany(t *testing.T) {
	const lone = 7_777
	b := crowd(func(n int, s *presence.Session) {
		s.Offers[0].Quantization = "fp8"
		if n == lone {
			s.Offers[0].Quantization = "fp16"
		}
	})
	for name, p := range map[string]Preferences{
		"only":                     {Only: []string{id(lone)}},
		"only, of many":            {Only: append(absent(31), id(lone))},
		"only, sorted":             {Only: []string{id(lone)}, Sort: ByThroughput},
		"quantization":             {Quantizations: []string{"fp16"}},
		"quantization, sorted":     {Quantizations: []string{"fp16"}, Sort: ByLatency},
		"quantization, ignoring":   {Quantizations: []string{"fp16"}, Ignore: absent(32)},
		"quantization, in order":   {Quantizations: []string{"fp16"}, Order: []string{id(1), id(2)}},
		"only, order without them": {Only: []string{id(lone)}, Order: []string{id(1), id(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			req := b.request(preferring(p))
			c, err := b.Select(t.Context(), req)
			if err != nil {
				t.Fatalf("got the error %v, want none", err)
			}
			if !slices.Equal(chosen(c), []string{id(lone)}) {
				t.Fatalf("chosen(c): got %q, want %q", chosen(c), []string{id(lone)})
			}
			c.Candidates[0].Seat.Slots.Cancel(req.ID)
		})
	}
}

// absent are providers that have no session.
func absent(n int) []string {
	var out []string
	for i := range n {
		out = append(out, id(1_000_000+i))
	}
	return out
}

func TestTheLastThatAreNotIgnoredOrFullAreFoundAmongMany(t *testing.T) {
	b := crowd(func(n int, s *presence.Session) {
		if n > 3 {
			full(s)
		}
	})
	c, err := b.Select(t.Context(), b.request(preferring(Preferences{Ignore: []string{id(1)}})))
	got := chosen(c)
	slices.Sort(got)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !slices.Equal(got, []string{id(2), id(3)}) {
		t.Errorf("chosen(c): got %q, want %q", got, []string{id(2), id(3)})
	}
}

func TestNobodyWhoIsIgnoredIsDrawn(t *testing.T) {
	b := setup()
	for n := range sampleAbove + 8 {
		b.report("hub", session(n+1, func(s *presence.Session) { s.Offers[0].Capacity = 1000 }))
	}
	var ignore []string
	for n := range 32 {
		ignore = append(ignore, id(n+1))
	}
	for range 500 {
		c, err := b.Select(t.Context(), b.request(preferring(Preferences{Ignore: ignore})))
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if len(c.Candidates) != 3 {
			t.Fatalf("len(c.Candidates): got %d, want 3", len(c.Candidates))
		}
		for _, got := range chosen(c) {
			if slices.Contains(ignore, got) {
				t.Fatalf("chosen with %s ignored: got %q, want it without %q", got, ignore, got)
			}
		}
	}
}

// Few providers with many sessions each: the candidates are three of them, the
// best first.
func TestManySessionsOfAProviderTakeOnePlace(t *testing.T) {
	for name, tc := range map[string]struct {
		sessions int
		prefer   Preferences
		want     []string
	}{
		"order":     {64, Preferences{Order: []string{id(4), id(2), id(5)}}, []string{id(4), id(2), id(5)}},
		"sort":      {64, Preferences{Sort: ByThroughput}, []string{id(5), id(4), id(3)}},
		"sort, few": {30, Preferences{Sort: ByLatency}, []string{id(5), id(4), id(3)}},
		"order, sort": {64, Preferences{Order: []string{id(1)}, Sort: ByLatency},
			[]string{id(1), id(5), id(4)}},
		"order, few": {30, Preferences{Order: []string{id(3), id(1), id(2)}}, []string{id(3), id(1), id(2)}},
		"only, order": {64, Preferences{Only: []string{id(1), id(2), id(3), id(4)},
			Order: []string{id(3), id(9), id(2), id(1)}}, []string{id(3), id(2), id(1)}},
		"only, sort": {64, Preferences{Only: []string{id(1), id(2), id(3), id(4)}, Sort: ByThroughput},
			[]string{id(4), id(3), id(2)}},
		"order, long and repeated": {64, Preferences{Order: append([]string{id(2), id(5), id(1)},
			append(absent(9), id(2))...)}, []string{id(2), id(5), id(1)}},
		"sort, more than its bound": {2 * sortAmong, Preferences{Sort: ByLatency}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup()
			for n := 1; n <= 5; n++ {
				b.measured(id(n), n)
				var sessions []presence.Session
				for i := range tc.sessions {
					sessions = append(sessions, session(n, func(s *presence.Session) {
						s.Node, s.Epoch = fmt.Sprint(i), int64(n*10_000+i)
					}))
				}
				b.report("hub", sessions...)
			}
			c, err := b.Select(t.Context(), b.request(preferring(tc.prefer)))
			got := chosen(c)
			if err != nil {
				t.Fatalf("got the error %v, want none", err)
			}
			if tc.want != nil && !slices.Equal(got, tc.want) {
				t.Fatalf("chosen(c): got %q, want %q", got, tc.want)
			}
			if slices.Sort(got); len(slices.Compact(got)) != MaxCandidates {
				t.Errorf("candidates: got %d, want %d", len(slices.Compact(got)), MaxCandidates)
			}
		})
	}
}

func TestAnOrderIsFilledUpFromAllOthers(t *testing.T) {
	b := crowd(nil)
	b.fail(id(3), breaker.Threshold)
	order := []string{id(5), id(3), id(5), id(8)}
	for range 5 {
		c, err := b.Select(t.Context(), b.request(preferring(Preferences{Order: order})))
		switch got := chosen(c); {
		case err != nil:
			t.Fatalf("got the error %v, want none", err)
		case len(got) != 3:
			t.Fatalf("len(got): got %d, want 3, in %v", len(got), got)
		case got[0] != id(5):
			t.Fatalf("got[0]: got %q, want %q", got[0], id(5))
		case got[1] != id(8):
			t.Fatalf("got[1]: got %q, want %q", got[1], id(8))
		case slices.Contains(order, got[2]):
			t.Fatalf("order: got %q, want it without %q", order, got[2])
		}
	}
}

func TestASortOfNoMoreThanItsBoundFindsTheBest(t *testing.T) {
	b := setup()
	sessions := make([]presence.Session, sortAmong)
	for i := range sessions {
		sessions[i] = session(i + 1)
	}
	b.report("hub", sessions...)
	for grade, n := range []int{100, 999, 500} {
		b.measured(id(n), grade+1)
	}
	for _, sort := range []Sort{ByLatency, ByThroughput} {
		c, err := b.Select(t.Context(), b.request(preferring(Preferences{Sort: sort})))
		if want := []string{id(500), id(999), id(100)}; err != nil {
			t.Errorf("sort %d: got the error %v, want none", sort, err)
		} else if !slices.Equal(chosen(c), want) {
			t.Errorf("sort %d: chosen(c): got %q, want %q", sort, chosen(c), want)
		}
	}
}

// A walk of many seats ends with enough options; what is named takes none.
func TestALookAtManySeatsIsBounded(t *testing.T) {
	b := crowd(func(_ int, s *presence.Session) { s.Offers[0].Quantization = "fp8" })
	for name, tc := range map[string]struct {
		prefer Preferences
		limit  int
	}{
		"none":   {Preferences{}, sampleTries},
		"ignore": {Preferences{Ignore: absent(32)}, sampleTries},
		"only":   {Preferences{Only: []string{id(1), id(2), id(3), id(4)}}, 4},
		"nobody": {Preferences{Only: absent(32)}, 0},
		"order":  {Preferences{Order: []string{id(1), id(2), id(3), id(4)}}, 4},
		"second": {Preferences{Order: []string{id(1)}}, sampleTries + 1},
		"sort":   {Preferences{Sort: ByLatency}, sortAmong},
		"filter": {Preferences{Quantizations: []string{"fp8"}}, sampleTries},
	} {
		t.Run(name, func(t *testing.T) {
			req := b.request(preferring(tc.prefer))
			s := b.begin(req)
			defer b.end(s)
			s.amongWanted()
			if !s.sample() {
				s.walk()
			}
			if s.online > tc.limit {
				t.Errorf("seats that were looked at: got %d, want at most %d", s.online, tc.limit)
			}
		})
	}
}

func TestAWalkPastFewFullSeatsEndsWithEnough(t *testing.T) {
	b := crowd(nil)
	s := b.begin(b.request())
	defer b.end(s)
	s.amongWanted()
	s.walk()
	if s.online != sampleAbove {
		t.Errorf("seats that were looked at: got %d, want %d", s.online, sampleAbove)
	}
}

// Where only named providers are looked at, a request is still blamed for what
// fits nowhere and for nothing else.
func TestARefusalOfNamedProvidersBlamesWhatFitsNowhere(t *testing.T) {
	b := crowd(func(n int, s *presence.Session) {
		s.MaxRequestBytes = 1 << 20
		if n == 1 {
			s.Offers[0].Window, s.MaxRequestBytes = 500, 1<<10
		}
	})
	for name, tc := range map[string]struct {
		prompt, body int64
		want         fault.Reason
	}{
		"fits others":      {600, 1000, fault.NoProviderOnline},
		"body fits others": {100, 1 << 15, fault.NoProviderOnline},
		"too long":         {1001, 1000, fault.ContextLengthExceeded},
		"too large":        {100, 1 << 21, fault.RequestTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.Select(t.Context(), b.request(preferring(Preferences{Only: []string{id(1)}}), func(r *Request) {
				r.PromptTokens, r.BodyBytes = tc.prompt, tc.body
			}))
			wantReason(t, err, tc.want)
		})
	}
}

// BenchmarkPreferences reports what a preference costs, and as a ratio to none.
func BenchmarkPreferences(b *testing.B) {
	s := crowd(func(n int, s *presence.Session) {
		s.Offers[0].Capacity, s.Offers[0].Quantization = 4000, "fp8"
		if n == 7_777 {
			s.Offers[0].Quantization = "fp16"
		}
	})
	for n := range many {
		s.measured(id(n+1), 1+n%97)
	}
	named := []string{}
	for n := range 32 {
		named = append(named, id(1+n*300))
	}
	runtime.GC() // what it took to set up is not to be paid by the first
	var none float64
	for _, c := range []struct {
		name   string
		prefer Preferences
	}{
		{"none", Preferences{}},
		{"ignore", Preferences{Ignore: []string{"x"}}},
		{"ignore32", Preferences{Ignore: named}},
		{"only", Preferences{Only: named[:1]}},
		{"only32", Preferences{Only: named}},
		{"order", Preferences{Order: named[:1]}},
		{"order32", Preferences{Order: named}},
		{"sort", Preferences{Sort: ByThroughput}},
		{"order32,sort", Preferences{Order: named, Sort: ByLatency}},
		{"quantization", Preferences{Quantizations: []string{"fp8"}}},
		{"rare", Preferences{Quantizations: []string{"fp16"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			req := s.request(preferring(c.prefer))
			b.ReportAllocs()
			for b.Loop() {
				got, err := s.Select(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				got.Candidates[0].Seat.Slots.Cancel(req.ID)
			}
			each := float64(b.Elapsed()) / float64(b.N)
			if c.name == "none" {
				none = each
			}
			if none > 0 {
				b.ReportMetric(each/none, "times-none")
			}
		})
	}
}
