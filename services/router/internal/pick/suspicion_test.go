package pick

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/retry"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/warmup"
)

func of(account tag.Account) func(*Request) { return func(r *Request) { r.Account = account } }

// warm is a session that takes warm-ups.
func warm(s *presence.Session) { s.TakesWarmups = true }

// failed is a chat of an account that a provider failed.
func failed(n int, account tag.Account) Attempt {
	return Attempt{Request: "r", Provider: id(n), Node: "n", Epoch: int64(n), Model: "m", Outcome: Failed,
		Account: account, Chat: true}
}

// asked plans for a second and returns who is asked because it is suspected.
func (b *bundle) asked() (out []warmup.Target) {
	for range 4 {
		b.clock.Advance(250 * time.Millisecond)
		for _, ask := range b.deps.Warm.Plan(b.clock.Now()) {
			if ask.Suspected {
				out = append(out, ask.Target)
			}
		}
	}
	return out
}

func TestOneAccountsFailuresAskForAWarmUpAndTakeNothingFromOthers(t *testing.T) {
	b := setup()
	b.report("hub", session(1, warm))
	for i := range 50 {
		b.Ended(failed(1, 7))
		if c, err := b.Select(t.Context(), b.request(of(8))); err != nil || len(c.Candidates) != 1 {
			t.Fatalf("after %d failures of another account: got %v, want the provider", i+1, err)
		}
		b.view.Seats("m")[0].Slots.Cancel(fmt.Sprint("r", b.requests))
	}
	want := []warmup.Target{{Provider: id(1), Node: "n", Model: "m"}}
	if got := b.asked(); !slices.Equal(got, want) {
		t.Fatalf("got %v asked, want %v", got, want)
	}
	if h := b.known.Find(health.Pair{Provider: id(1), Model: "m"}).Window.Health(); h.Degraded {
		t.Errorf("got %+v by one account's failures, want not degraded", h)
	}
	b.Ended(Attempt{Provider: id(1), Node: "n", Epoch: 1, Model: "m", Probe: true, Outcome: Failed})
	_, err := b.Select(t.Context(), b.request(of(8)))
	wantReason(t, err, fault.NoProviderOnline)
}

func TestAWarmUpThatIsServedClearsSuspicion(t *testing.T) {
	b := setup()
	b.report("hub", session(1, warm))
	for range breaker.Threshold {
		b.Ended(failed(1, 7))
	}
	rec := b.known.Find(health.Pair{Provider: id(1), Model: "m"})
	if got := rec.Breaker.State(b.clock.Now()); got != breaker.Suspected {
		t.Fatalf("got state %d, want suspected", got)
	}
	b.Ended(Attempt{Provider: id(1), Node: "n", Epoch: 1, Model: "m", Probe: true, Outcome: Served})
	if got := rec.Breaker.State(b.clock.Now()); got != breaker.Closed {
		t.Errorf("got state %d, want closed", got)
	}
	if got := rec.Window.Health().Samples; got > 2 {
		t.Errorf("got %d samples, want no probe among them", got)
	}
}

func TestAProbeOfAPairThatNobodyKnowsIsForgotten(t *testing.T) {
	b := setup()
	b.Ended(Attempt{Provider: id(1), Model: "m", Probe: true, Outcome: Failed})
	if got := b.known.Len(); got != 0 {
		t.Errorf("got %d pairs known, want none", got)
	}
}

func TestAWarmUpIsNotAskedForWhatItCannotTell(t *testing.T) {
	b := setup()
	b.report("hub", session(1, warm), session(2))
	for range breaker.Threshold {
		a := failed(1, 7)
		a.Chat = false // an embedding
		b.Ended(a)
		b.Ended(failed(2, 7)) // takes none
	}
	if got := b.asked(); len(got) != 0 {
		t.Errorf("got %v asked, want nobody", got)
	}
}

func TestASuspectIsAskedAgainOnlyAfterAPause(t *testing.T) {
	b := setup()
	b.report("hub", session(1, warm))
	var times []time.Time
	for b.clock.Now().Before(start.Add(10 * time.Minute)) {
		b.report("hub", session(1, warm))
		b.Ended(failed(1, 7))
		if len(b.asked()) > 0 {
			times = append(times, b.clock.Now())
		}
	}
	if len(times) < 6 || len(times) > 7 {
		t.Errorf("got asked %d times in ten minutes, want about every %v", len(times), warmup.SuspectInterval)
	}
	for i := 1; i < len(times); i++ {
		if pause := times[i].Sub(times[i-1]); pause < warmup.SuspectInterval {
			t.Errorf("got a pause of %v, want %v at least", pause, warmup.SuspectInterval)
		}
	}
}

func TestOneNodeIsNotMadeToLoadAllItsModelsInTurn(t *testing.T) {
	b := setup()
	many := func(s *presence.Session) {
		s.TakesWarmups = true
		for i := range 100 {
			s.Offers = append(s.Offers, presence.Offer{Model: fmt.Sprint("m", i), Healthy: true, Capacity: 10})
		}
	}
	b.report("hub", session(1, many))
	asked := 0
	for range 20 {
		for i := range 100 {
			a := failed(1, 7)
			a.Model = fmt.Sprint("m", i)
			b.Ended(a)
		}
		asked += len(b.asked())
	}
	if maxAsked := int(20*time.Second/warmup.SuspectNodeInterval) + 1; asked == 0 || asked > maxAsked {
		t.Errorf("got %d warm-ups in 20 s, want 1 to %d", asked, maxAsked)
	}
}

func TestAnAccountsOwnRequestsGoToOthersFirst(t *testing.T) {
	b := setup()
	// The second has hardly any room left, so that the first is preferred by others.
	b.report("hub", session(1), session(2, func(s *presence.Session) {
		s.Offers[0].Capacity, s.Offers[0].InFlight = 100,
			97
	}))
	for range breaker.Threshold {
		b.Ended(failed(1, 7))
	}
	first := map[tag.Account]map[string]int{7: {}, 8: {}}
	for range 300 {
		for account, count := range first {
			r := b.request(of(account))
			c, err := b.Select(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			s := c.Candidates[0].Seat.Session
			count[s.Provider]++
			b.Ended(Attempt{Request: r.ID, Provider: s.Provider, Node: s.Node, Epoch: s.Epoch, Model: "m"})
		}
	}
	if got := first[7][id(1)]; got > 40 {
		t.Errorf("got %d of the account's 300 requests sent where all of its requests failed, want about one in %d", got,
			ProbeOneIn)
	}
	if got := first[8][id(1)]; got < 200 {
		t.Errorf("got %d of another account's 300 requests sent there, want most", got)
	}
}

func TestAPoisonedRequestHurtsOneProviderAtMost(t *testing.T) {
	b := setup()
	var all []presence.Session
	for n := range 9 {
		all = append(all, session(n+1, warm))
	}
	b.report("hub", all...)
	for i := range 30 { // each request fails on one provider, and excused on two more
		account := tag.Account(1 + i%2)
		b.Ended(failed(1, account))
		for n := 2; n <= 9; n++ {
			a := failed(n, account)
			a.Excused = true
			b.Ended(a)
		}
	}
	for n := 2; n <= 9; n++ {
		rec := b.known.Find(health.Pair{Provider: id(n), Model: "m"})
		if rec.Breaker.State(b.clock.Now()) != breaker.Closed || rec.Window.Health().Samples != 0 {
			t.Errorf("provider %d: got state %d and %+v, want nothing held against it", n, rec.Breaker.State(b.clock.Now()),
				rec.Window.Health())
		}
	}
	if got, want := b.asked(), []warmup.Target{{Provider: id(1), Node: "n", Model: "m"}}; !slices.Equal(got, want) {
		t.Errorf("got %v suspected, want %v", got, want)
	}
}

func TestARestartedRouterComesToTheSameSuspicion(t *testing.T) {
	before, after := setup(), setup()
	for i := range 20 {
		before.Ended(failed(1, 7))
		if i >= 20-breaker.Threshold {
			after.Ended(failed(1, 7))
		}
	}
	pair := health.Pair{Provider: id(1), Model: "m"}
	got, want := after.known.Find(pair).Breaker.State(start), before.known.Find(pair).Breaker.State(start)
	if got != want || got != breaker.Suspected {
		t.Errorf("got state %d after the restart, want %d as before it", got, want)
	}
}

func TestAnAccountThatHasSpentItsRetriesGetsOneCandidate(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2), session(3))
	for range retry.PerMinute {
		b.Ended(failed(1, 7))
		b.Ended(Attempt{Provider: id(1), Model: "m", Outcome: Served}) // no breaker is in the way
	}
	c, err := b.Select(t.Context(), b.request(of(7)))
	if err != nil || !c.Single || len(c.Candidates) != 1 {
		t.Errorf("got single %v with %d candidates, %v; want one attempt on one", c.Single, len(c.Candidates), err)
	}
	c, err = b.Select(t.Context(), b.request(of(8)))
	if err != nil || c.Single || len(c.Candidates) != MaxCandidates {
		t.Errorf("another account: got single %v with %d candidates, %v; want %d", c.Single, len(c.Candidates), err,
			MaxCandidates)
	}
	b.clock.Advance(2 * time.Minute)
	b.report("hub", session(1), session(2), session(3))
	if c, err = b.Select(t.Context(), b.request(of(7))); err != nil || c.Single {
		t.Errorf("two minutes later: got single %v, %v; want retries", c.Single, err)
	}
}

func TestTheUsualFirstContentIsTheMedianOverProvidersAtThePromptsLength(t *testing.T) {
	b := setup()
	b.report("hub", session(1), session(2), session(3))
	long := int64(100)
	usual := func() time.Duration {
		t.Helper()
		c, err := b.Select(t.Context(), b.request(func(r *Request) { r.PromptTokens = long }))
		if err != nil {
			t.Fatal(err)
		}
		return c.UsualFirstContent
	}
	if got := usual(); got != 0 {
		t.Errorf("got %v of a model that nobody has served, want 0", got)
	}
	for n, base := range map[int]time.Duration{1: 400 * time.Millisecond, 2: time.Second, 3: time.Minute} {
		times := 6
		if n == 3 {
			times = 60 // however many a slow one serves, it is one of three
		}
		for range times {
			a := Attempt{Request: "x", Provider: id(n), Model: "m", Outcome: Served, Prompt: 50, FirstContent: base,
				Duration: base}
			b.Ended(a)
			a.Prompt, a.FirstContent = 10_000, base+10*time.Second
			b.Ended(a)
		}
	}
	b.known.Refresh(b.clock.Now())
	if got := usual(); got != time.Second {
		t.Errorf("got %v at a short prompt, want %v", got, time.Second)
	}
	b.catalog["m"] = 0
	b.report("hub", session(4, func(s *presence.Session) { s.Offers[0].Window = 100_000 }))
	long = 20_000
	if got, want := usual(), 21*time.Second; got != want {
		t.Errorf("got %v at 20,000 tokens, want %v", got, want)
	}
}

func TestASlowReaderMakesNobodySlow(t *testing.T) {
	a := Attempt{Duration: 101 * time.Second, FirstContent: time.Second, Blocked: 90 * time.Second, CompletionTokens: 500}
	if got := speed(a); got != 50 {
		t.Errorf("got %v tokens a second, want 50", got)
	}
}

// TestWhateverOneAccountFailsOthersAreSelected plays random histories of one account's
// failures on a few providers, and of platform's probes that are served.
func TestWhateverOneAccountFailsOthersAreSelected(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for round := range 100 {
		b := setup()
		n := 1 + random.IntN(4)
		var all []presence.Session
		for i := range n {
			all = append(all, session(i+1, warm, func(s *presence.Session) { s.Offers[0].Capacity = 1_000 }))
		}
		for range 60 {
			b.report("hub", all...)
			a := failed(1+random.IntN(n), 7)
			switch random.IntN(4) {
			case 0:
				a.Excused = true
			case 1:
				a.Probe, a.Outcome = true, Served
			}
			b.Ended(a)
			b.clock.Advance(time.Duration(random.IntN(2_000)) * time.Millisecond)
			c, err := b.look(b.request(of(8)), true)
			if err != nil || len(c.Candidates) != min(n, MaxCandidates) {
				t.Fatalf("round %d: got %d candidates of %d providers, %v; want all that can be", round, len(c.Candidates), n, err)
			}
		}
	}
}
