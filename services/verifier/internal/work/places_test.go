package work

import (
	"context"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// stuck is a provider that never answers beside others that no question reaches.
type stuck struct {
	away
	provider ids.ProviderID
	other    chan struct{}
	heard    sync.Once

	mu   sync.Mutex
	runs map[probe.RunID]bool
}

func (s *stuck) Run(ctx context.Context, p probe.Plan) (judge.Record, error) {
	if p.Offer.Provider != s.provider {
		s.heard.Do(func() { close(s.other) })
		return judge.Record{}, &flow.GiveBack{Reason: flow.PlatformDown}
	}
	s.mu.Lock()
	s.runs[p.Run] = true
	s.mu.Unlock()
	<-ctx.Done()
	return judge.Record{}, &flow.GiveBack{Reason: flow.Stopped}
}

// A provider of many models that never answers would else stop all benchmarks.
func TestAProviderThatNeverAnswersHoldsFewPlaces(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	session := offers.Session{Provider: s.offer.Provider, Node: "m", Epoch: 2}
	for _, model := range []string{"b", "c", "d"} {
		session.Models = append(session.Models, offers.Model{ID: model, Healthy: true, Window: 1024, Class: quant.Bits16})
	}
	other := s.See(t, storetest.Provider(t))
	s.benchmarks.Offers.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 2,
		Sessions: []offers.Session{session, {Provider: other.Provider, Node: "n", Epoch: 3, Models: []offers.Model{{
			ID: other.Model, Healthy: true, Window: 1024, Class: quant.Bits16}}}}}, time.Now())
	s.See(t, s.offer.Provider, "b", "c", "d")
	s.pass(referenceDue)
	for _, o := range s.benchmarks.Offers.Known() {
		first := standing.Event{Ticked: &standing.Tick{}}
		if _, err := s.benchmarks.Mover.Move(t.Context(), o.Offer, "first", first); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.benchmarks.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	runner := &stuck{provider: s.offer.Provider, other: make(chan struct{}), runs: map[probe.RunID]bool{}}
	s.benchmarks.Runner, s.benchmarks.Parallel, s.benchmarks.Haste = runner, 3, 100
	looks, looked := 0, make(chan struct{})
	s.benchmarks.Enabled = func(context.Context) bool {
		select {
		case <-runner.other:
			if looks++; looks == 10 {
				close(looked)
			}
		default:
		}
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	var driving sync.WaitGroup
	driving.Go(func() { s.benchmarks.drive(ctx) })
	select {
	case <-looked: // the place of the other provider has been free since
	case <-time.After(30 * time.Second):
		t.Error("the other provider was not asked")
	}
	cancel()
	driving.Wait()
	if n := len(runner.runs); n > store.MaxEach {
		t.Errorf("runs of the provider under way: got %d, want at most %d", n, store.MaxEach)
	}
}
