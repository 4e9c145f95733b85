// Package explain reports why a provider is chosen or not: why requests passed it over,
// and how each of its models stands now.
//
// Both are what this replica knows: counts since it started, the sessions in its view, and
// what the verifier says of their models, without the number of its trust. A model that is
// shut is a reason by itself, also while no request has asked for it, and so is a model that
// only nodes of the second tier serve while the first has one. At most MaxModels
// models, and MaxOffers of all nodes, are reported.
package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/trustword"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/trust"
	"svc.internal/services/router/internal/window"
)

const (
	// MaxModels bounds the models of a report.
	MaxModels = 256
	// MaxOffers bounds the models of all nodes of a report together.
	MaxOffers = 1024
)

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
	// Lane is what the verifier lets the model have. Measured is the window that it has
	// measured, and Window the smallest effective window of the nodes, both in tokens and
	// 0 where they are not known.
	Lane             trust.Lane
	Measured, Window int64
	// Declared is the smallest window that the nodes declare in tokens; 0 when one is silent.
	Declared int64
	// Trust is the public word for what the verifier makes of the model.
	Trust string
	// Outranked reports whether all nodes are of the second tier while the first tier has a
	// node of the model that gets requests.
	Outranked bool
	// Chosen counts requests since the start.
	Chosen int64
	// Figures are what the attempts of the last 24 hours say.
	Figures window.Figures
}

// Node is a connected node of a provider.
type Node struct {
	ID string
	// Offers are its models by id.
	Offers []Offer
}

// Offer is a model of a node.
type Offer struct {
	Model string
	// Serving reports whether the node is not draining and says that the model is healthy.
	Serving bool
	// InFlight and Capacity are as in Model.
	InFlight, Capacity int
}

// Account is what is reported of a provider: the most frequent reason first, models and nodes by
// id.
type Account struct {
	Rejects []Reject
	Models  []Model
	Nodes   []Node
}

// Sources are what is reported from.
type Sources struct {
	View   *presence.View
	Health *health.Registry
	Stats  *pick.Stats
	Trust  *trust.Registry
	// Windows returns the catalog's window of a model in tokens; 0 where it is not known.
	Windows func(model string) int64
}

// Provider reports what is known of a provider. A provider that is not connected has no
// models.
func (s Sources) Provider(provider string, now time.Time) Account {
	a := Account{Models: s.models(provider, now), Nodes: s.nodes(provider, now)}
	rejects := s.Stats.Of(provider)
	if slices.ContainsFunc(a.Models, func(m Model) bool { return m.Lane == trust.Shut }) {
		rejects = withReason(rejects, pick.NotVerified)
	}
	if slices.ContainsFunc(a.Models, func(m Model) bool { return m.Outranked }) {
		rejects = withReason(rejects, pick.Outranked)
	}
	for why, n := range rejects {
		a.Rejects = append(a.Rejects, Reject{Reason: why, Count: n})
	}
	slices.SortFunc(a.Rejects, func(x, y Reject) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Reason, y.Reason))
	})
	chosen := s.Stats.Chosen(provider)
	for i := range a.Models {
		m := &a.Models[i]
		m.Chosen = chosen[m.ID]
		if rec := s.Health.Find(health.Pair{Provider: provider, Model: m.ID}); rec != nil {
			m.Breaker, m.Figures = rec.Breaker.State(now), rec.Window.Figures(now)
		}
		if m.Breaker == breaker.Open || m.Lane == trust.Shut {
			m.Available = 0
		}
	}
	return a
}

// withReason returns the rejects with a reason among them, whatever its count.
func withReason(rejects map[pick.Reason]int64, why pick.Reason) map[pick.Reason]int64 {
	if rejects == nil {
		rejects = map[pick.Reason]int64{}
	}
	rejects[why] += 0
	return rejects
}

// models sums up the seats of one provider by model.
func (s Sources) models(provider string, now time.Time) []Model {
	seats := s.View.By(provider)
	slices.SortStableFunc(seats, func(x, y *presence.Seat) int { return strings.Compare(x.Offer.Model, y.Offer.Model) })
	var out []Model
	for _, seat := range seats {
		if len(out) == 0 || out[len(out)-1].ID != seat.Offer.Model {
			if len(out) == MaxModels {
				break
			}
			opinion := s.Trust.OfSeat(seat)
			out = append(out, Model{
				ID: seat.Offer.Model, Lane: opinion.Lane, Measured: opinion.Window, Trust: word(opinion),
			})
		}
		m := &out[len(out)-1]
		m.Outranked = (m.Nodes == 0 || m.Outranked) && s.outranked(seat)
		effective, _ := contextwindow.Effective(seat.Offer.Window, s.Windows(m.ID), m.Measured)
		if m.Nodes == 0 || effective < m.Window {
			m.Window = effective
		}
		if m.Nodes == 0 || seat.Offer.Window < m.Declared {
			m.Declared = seat.Offer.Window
		}
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

// nodes lists the seats of one provider by node and model.
func (s Sources) nodes(provider string, now time.Time) []Node {
	seats := s.View.By(provider)
	slices.SortStableFunc(seats, func(x, y *presence.Seat) int {
		return cmp.Or(strings.Compare(x.Session.Node, y.Session.Node), strings.Compare(x.Offer.Model, y.Offer.Model))
	})
	var out []Node
	for _, seat := range seats[:wholeNodes(seats)] {
		if len(out) == 0 || out[len(out)-1].ID != seat.Session.Node {
			out = append(out, Node{ID: seat.Session.Node})
		}
		n := &out[len(out)-1]
		load, capacity := seat.Slots.Room(now)
		n.Offers = append(n.Offers, Offer{Model: seat.Offer.Model, Serving: !seat.Session.Draining && seat.Offer.Healthy,
			InFlight: load, Capacity: capacity})
	}
	return out
}

// wholeNodes returns how many of the seats, which are sorted by node, are listed: at most MaxOffers, and
// no node in part.
func wholeNodes(seats []*presence.Seat) int {
	n := min(len(seats), MaxOffers)
	for n < len(seats) && n > 0 && seats[n-1].Session.Node == seats[n].Session.Node {
		n--
	}
	return n
}

// outranked reports whether a seat of the second tier comes after one of the first.
func (s Sources) outranked(seat *presence.Seat) bool {
	return seat.Session.Tier() == presence.SecondTier &&
		slices.ContainsFunc(s.View.Tier(seat.Offer.Model, presence.FirstTier), func(other *presence.Seat) bool {
			return other.Online() && !s.Trust.ShutSeat(other)
		})
}

// word is the public word for an opinion. As in public lists, the trust of a model counts in
// the main lane alone.
func word(o *trust.Opinion) string {
	if !o.Known() || o.Lane != trust.Main {
		return trustword.Normal
	}
	return trustword.Of(false, o.Trust)
}
