// Package offers is the live view of what providers offer and which references there are.
// It is put together from what hubs report of their sessions.
//
// Package sessions has the rules of order: which of a hub's reports count, when a session
// ends, and which session of a node serves.
//
// A reference is in no offer. It is found by References alone, whatever a hub says of its
// status.
//
// A view has at most MaxSessions sessions, MaxHubs hubs and MaxModels models of each
// session. What exceeds a bound is dropped and counted. Sessions and models are immutable
// once they are in the view, so readers keep them as long as they like.
package offers

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/sessions"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
)

const (
	// Expiry is how long a session lives after it was last confirmed.
	Expiry = sessions.Expiry
	// MaxSessions bounds the view.
	MaxSessions = 200_000
	// MaxHubs bounds the hubs whose reports are taken.
	MaxHubs = sessions.MaxHubs
	// MaxModels bounds the models of one session.
	MaxModels = 256
)

// Fingerprints and Logprobs are capabilities of sessions.
const (
	Fingerprints = "fingerprint"
	Logprobs     = "logprobs"
)

// Model is one model that a session serves.
type Model struct {
	ID      string
	Healthy bool
	// Window is the reported context window in tokens; 0 where none is reported.
	Window int64
	// Capacity is how many requests the provider takes at once for this model.
	Capacity int
	// Quantization is the provider's statement, and Class the class that it names.
	Quantization string
	Class        quant.Class
	// Engine and Revision are as the agent declares them; empty where they are not known.
	Engine, Revision string
}

// Session is one live connection of a provider's node.
type Session struct {
	Provider ids.ProviderID
	Node     string
	Epoch    int64
	// Hub and Address name the hub that holds the session, and where it takes calls. The
	// view sets both.
	Hub, Address string
	Active       bool
	Draining     bool
	Reference    bool
	Probation    bool
	// ActiveSince is when the provider became active; zero while it is not.
	ActiveSince time.Time
	// Capabilities are in ascending order.
	Capabilities []string
	// MaxRequestBytes is the largest body that the session takes; 0 for no bound.
	MaxRequestBytes int64
	// GPU is the name of the GPU model as the agent reports it.
	GPU string
	// Capacity bounds the requests over all models; 0 for no bound.
	Capacity int
	Models   []Model
	// Identities are by what the provider and its node are known, in order.
	Identities []identity.Identity
}

// Has reports whether the session declares a capability.
func (s *Session) Has(capability string) bool {
	_, found := slices.BinarySearch(s.Capabilities, capability)
	return found
}

// Host names the machine: the provider and its node. Scores and plans use it.
func (s *Session) Host() string { return s.Provider.String() + "/" + s.Node }

// Report is one message of a hub.
type Report struct {
	Hub         string
	Incarnation int64
	Address     string
	Revision    uint64
	// Full marks a part of a full report. Part counts from 0 to Parts−1.
	Full        bool
	Part, Parts uint32
	Sessions    []Session
	Ended       []int64
}

// Seat is one model of one session.
type Seat struct {
	*Session
	Model *Model
}

// Open reports whether the session takes new work.
func (s Seat) Open() bool { return !s.Draining && s.Model.Healthy }

// Offer is a model of a provider with the nodes that serve it, in the order of their names.
type Offer struct {
	probe.Offer
	Seats []Seat
}

// View is safe for concurrent use.
type View struct {
	mu      sync.RWMutex
	set     *sessions.Set[node, *Session]
	offered map[probe.Offer][]Seat
	// references are the seats of references by model.
	references map[string][]Seat
	heard      chan struct{}
}

// Heard has a sign when a report was heard since the last sign.
// It is for one reader.
func (v *View) Heard() <-chan struct{} { return v.heard }

func (v *View) ring() {
	select {
	case v.heard <- struct{}{}:
	default: // there is a sign already
	}
}

// node names a node of a provider.
type node struct {
	provider ids.ProviderID
	name     string
}

// record is one session of one hub.
type record = sessions.Record[node, *Session]

// Known returns every offer whose provider is connected, active or not, ordered by
// provider and model.
func (v *View) Known() []Offer {
	v.mu.RLock()
	all := make([]Offer, 0, len(v.offered))
	for offer, seats := range v.offered {
		all = append(all, Offer{offer, seats})
	}
	v.mu.RUnlock()
	slices.SortFunc(all, func(a, b Offer) int {
		return cmp.Or(slices.Compare(a.Provider[:], b.Provider[:]), cmp.Compare(a.Model, b.Model))
	})
	return all
}

// Find returns one offer, and reports whether its provider is connected with the model.
func (v *View) Find(offer probe.Offer) (Offer, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	seats := v.offered[offer]
	return Offer{offer, seats}, len(seats) > 0
}

// Open returns the seats that take challenges for a provider's model, in the order of
// their nodes. References have some too, because calibration asks them.
func (v *View) Open(offer probe.Offer) []Seat {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var open []Seat
	for _, seats := range [][]Seat{v.offered[offer], v.references[offer.Model]} {
		for _, s := range seats {
			if s.Provider == offer.Provider && s.Open() {
				open = append(open, s)
			}
		}
	}
	return open
}

// Session returns the open seat with the newest epoch.
func (v *View) Session(offer probe.Offer) (Seat, bool) {
	open := v.Open(offer)
	if len(open) == 0 {
		return Seat{}, false
	}
	return slices.MaxFunc(open, func(a, b Seat) int { return cmp.Compare(a.Epoch, b.Epoch) }), true
}

// On returns the open seat of one host for a model.
func (v *View) On(host, model string) (Seat, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	name, ok := parseHost(host)
	if !ok {
		return Seat{}, false
	}
	for _, rec := range v.set.Of(name) {
		if !rec.Serves() {
			continue
		}
		for i := range rec.Value.Models {
			if seat := (Seat{rec.Value, &rec.Value.Models[i]}); seat.Model.ID == model && seat.Open() {
				return seat, true
			}
		}
	}
	return Seat{}, false
}

// hostProvider is the length of the provider in a host's name.
const hostProvider = 36

func parseHost(host string) (node, bool) {
	if len(host) <= hostProvider || host[hostProvider] != '/' {
		return node{}, false
	}
	provider, err := ids.ParseProvider(host[:hostProvider])
	return node{provider, host[hostProvider+1:]}, err == nil
}

// References returns the open seats of references for a model, the widest class first
// and then in the order of their hosts.
func (v *View) References(model string) []Seat {
	v.mu.RLock()
	all := slices.Clone(v.references[model])
	v.mu.RUnlock()
	all = slices.DeleteFunc(all, func(s Seat) bool { return !s.Open() })
	slices.SortFunc(all, func(a, b Seat) int {
		return cmp.Or(cmp.Compare(b.Model.Class, a.Model.Class), slices.Compare(a.Provider[:], b.Provider[:]),
			cmp.Compare(a.Node, b.Node))
	})
	return all
}

// Owners returns the owners of the seats' accounts. Accounts that share a user, a wallet or a
// payout address have one.
func Owners(seats []Seat) *identity.Owners {
	var owners identity.Owners
	for _, s := range seats {
		owners.Add(s.Provider, s.Identities...)
	}
	return &owners
}

// Size returns how many sessions and offers the view has, and for how many sessions or
// hubs there was no room.
func (v *View) Size() (sessions, offers int, dropped int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	sessions, _, _, dropped = v.set.Size()
	return sessions, len(v.offered), dropped
}

// Active reports whether consumers reach the offer on one of its nodes.
func (o Offer) Active() bool {
	return slices.ContainsFunc(o.Seats, func(s Seat) bool { return s.Active })
}
