// Package explain reports why a provider is chosen or not: why requests passed it over,
// and how each of its models stands now.
//
// Both are what this replica knows: counts since it started, and the sessions in its
// view. At most MaxModels models are reported.
package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
)

// MaxModels bounds the models of a report.
const MaxModels = 256

// Reject is how often a provider was passed over for a reason.
type Reject struct {
	Reason pick.Reason
	Count  int64
}

// Model is how one model of a provider stands.
type Model struct {
	ID string
	// Nodes counts the nodes that offer the model, and Available the nodes that could be
	// chosen now.
	Nodes, Available int
	// InFlight and Capacity are sums over the nodes: how many requests of ours are under
	// way, and how many may be.
	InFlight, Capacity int
	Breaker            breaker.State
	// Chosen counts requests since the start.
	Chosen int64
}

// Account is what is reported of a provider: the most frequent reason first, models by
// id.
type Account struct {
	Rejects []Reject
	Models  []Model
}

// Provider reports what is known of a provider. A provider that is not connected has no
// models.
func Provider(view *presence.View, known *health.Registry, stats *pick.Stats, provider string, now time.Time) Account {
	var a Account
	for why, n := range stats.Of(provider) {
		a.Rejects = append(a.Rejects, Reject{Reason: why, Count: n})
	}
	slices.SortFunc(a.Rejects, func(x, y Reject) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Reason, y.Reason))
	})
	a.Models = models(view.By(provider), now)
	chosen := stats.Chosen(provider)
	for i := range a.Models {
		m := &a.Models[i]
		m.Chosen = chosen[m.ID]
		if rec := known.Find(health.Pair{Provider: provider, Model: m.ID}); rec != nil {
			m.Breaker = rec.Breaker.State(now)
		}
		if m.Breaker == breaker.Open {
			m.Available = 0
		}
	}
	return a
}

// models sums up the seats of one provider by model.
func models(seats []*presence.Seat, now time.Time) []Model {
	slices.SortStableFunc(seats, func(x, y *presence.Seat) int { return strings.Compare(x.Offer.Model, y.Offer.Model) })
	var out []Model
	for _, seat := range seats {
		if len(out) == 0 || out[len(out)-1].ID != seat.Offer.Model {
			if len(out) == MaxModels {
				break
			}
			out = append(out, Model{ID: seat.Offer.Model})
		}
		m := &out[len(out)-1]
		load, capacity := seat.Slots.Room(now)
		m.Nodes++
		m.InFlight += load
		m.Capacity += capacity
		if seat.Online() && load < capacity {
			m.Available++
		}
	}
	return out
}
