package pick

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/router/internal/presence"
)

// BenchmarkSelectInAStorm reports what a choice among 10,000 sessions costs while
// twenty of them at a time end and come back.
func BenchmarkSelectInAStorm(b *testing.B) {
	s := crowd(func(_ int, s *presence.Session) { s.Offers[0].Capacity = 4000 })
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		epoch := int64(1_000_000)
		for n := 0; ; n = (n + 20) % many {
			select {
			case <-stop:
				return
			default:
			}
			var back []presence.Session
			for i := range 20 {
				epoch++
				back = append(back, session(n+i+1, func(s *presence.Session) { s.Epoch, s.Offers[0].Capacity = epoch, 4000 }))
			}
			s.report("hub", back...)
		}
	}()
	took := make([]time.Duration, 0, 1<<20)
	req := s.request()
	for b.Loop() {
		began := time.Now()
		c, err := s.Select(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		c.Candidates[0].Seat.Slots.Cancel(req.ID)
	}
	close(stop)
	<-done
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// Requests, ends of attempts, warm-ups and looks at providers go on while
// sessions join, change their models and bounds, and leave.
func TestChoicesGoOnWhileSessionsJoinChangeAndLeave(t *testing.T) {
	b := setup()
	const nodes, rounds = 40, 300
	stable := session(1, func(s *presence.Session) { s.Offers[0].Capacity = 4000 })
	b.report("stable", stable)
	b.clock.Advance(-rounds * time.Second) // so that it does not expire
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		defer close(stop)
		var revision uint64
		for round := range rounds {
			r := presence.Report{Hub: "hub", Incarnation: 1, Address: "hub"}
			for n := range nodes {
				epoch := int64(2 + n + nodes*(round/10))
				r.Sessions = append(r.Sessions, session(2+n, func(s *presence.Session) {
					s.Epoch, s.Capacity, s.Said, s.TakesWarmups = epoch, 1+round%8, round%5, true
					if round%2 == 0 {
						s.Offers = append(s.Offers, presence.Offer{Model: "k", Healthy: round%4 == 0, Capacity: 4})
					}
				}))
				if round%10 == 9 && n%2 == 0 {
					r.Ended = append(r.Ended, epoch)
				}
			}
			revision++
			r.Revision = revision
			b.view.Apply(r, b.clock.Now())
			b.clock.Advance(time.Second)
			b.view.Expire(b.clock.Now())
		}
	})
	running := func(do func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					do(i)
				}
			}
		})
	}
	for g := range 2 {
		running(func(i int) {
			req := &Request{ID: fmt.Sprint(g, "-", i), Model: "m", PromptTokens: 100, Capabilities: []string{"chat"}}
			c, err := b.Select(t.Context(), req)
			if err != nil {
				t.Errorf("request %s: %v", req.ID, err)
				return
			}
			s := c.Candidates[0].Seat.Session
			b.Ended(Attempt{Request: req.ID, Provider: s.Provider, Node: s.Node, Epoch: s.Epoch, Model: "m",
				Outcome: []Outcome{Served, TurnedAway, Neutral}[i%3], Duration: time.Millisecond, FirstContent: time.Millisecond})
		})
	}
	running(func(i int) {
		_, err := b.look(&Request{ID: fmt.Sprint("k", i), Model: "k", PromptTokens: 1}, true)
		if err != nil && !fault.Is(err, fault.NoProviderOnline) && !errors.Is(err, errBusy) {
			t.Errorf("model k: %v", err)
		}
	})
	running(func(i int) {
		for _, seat := range b.view.By(id(2 + i%nodes)) {
			if load, capacity := seat.Slots.Room(b.clock.Now()); load < 0 {
				t.Errorf("load: got %d, want at least 0", load)
			} else if capacity < 0 {
				t.Errorf("capacity: got %d, want at least 0", capacity)
			}
		}
		b.deps.Stats.Chosen(id(2 + i%nodes))
		b.deps.Warm.Plan(b.clock.Now())
	})
	wg.Wait()
}
