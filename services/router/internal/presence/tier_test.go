package presence

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever hubs report, each session that is online is in the list of its tier once, and
// where the view looks for it.
func TestEverySeatIsInTheListOfItsTier(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 4))
		v := New(func(string) {})
		want, ended := map[int64]Mode{}, map[int64]bool{}
		for revision := range uint64(40) {
			epoch := 1 + random.Int64N(12)
			if ended[epoch] {
				continue // for good
			}
			report := Report{Hub: "hub", Incarnation: 1, Address: "hub", Revision: revision + 1}
			if random.IntN(4) == 0 {
				report.Ended = []int64{epoch}
				delete(want, epoch)
				ended[epoch] = true
			} else {
				mode := Mode(1 + random.IntN(3))
				report.Sessions = []Session{{Provider: fmt.Sprint("p", epoch), Node: "n", Epoch: epoch, Mode: mode,
					Active: true, Offers: []Offer{{Model: "m", Healthy: true}}}}
				want[epoch] = mode
			}
			v.Apply(report, now)
			checkTiers(t, seed, v, want)
		}
	}
}

func checkTiers(t *testing.T, seed uint64, v *View, want map[int64]Mode) {
	t.Helper()
	found := 0
	for _, tier := range Tiers() {
		for _, seat := range v.Tier("m", tier) {
			found++
			s := seat.Session
			if s.Mode != want[s.Epoch] {
				t.Fatalf("seed %d: session %d: mode: got %d, want %d", seed, s.Epoch, s.Mode, want[s.Epoch])
			}
			if s.Tier() != tier {
				t.Fatalf("seed %d: session %d: tier: got %d, want %d", seed, s.Epoch, tier, s.Tier())
			}
			if v.Find(s.Provider, s.Node, s.Epoch, "m") != seat {
				t.Fatalf("seed %d: session %d is not where the view looks for it", seed, s.Epoch)
			}
		}
	}
	if found != len(want) {
		t.Fatalf("seed %d: seats: got %d, want %d", seed, found, len(want))
	}
	if all := len(v.Seats("m")); all != len(want) {
		t.Fatalf("seed %d: seats of both tiers: got %d, want %d", seed, all, len(want))
	}
}
