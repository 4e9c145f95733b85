package session

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/gpu"
)

// Identity says whose session it is. It never changes once the session has
// joined.
type Identity struct {
	ProviderID   ids.ProviderID
	ProviderName string
	KeyID        ids.KeyID
	NodeID       string
	NodeName     string
	AgentVersion string
	Region       string
	Epoch        int64
}

// Offer is one model that a session serves.
type Offer struct {
	Model string
	// ContextLength in tokens, 0 when not reported.
	ContextLength int64
	Quantization  string
	// Capacity is how many requests are taken at once.
	Capacity int
	Healthy  bool
	// InFlight is how many are under way.
	InFlight int
	// EngineModel is what the engine is said to call the model; empty for Model.
	EngineModel string

	// What was claimed beyond bounds, 0 for nothing.
	claimedContext  int64
	claimedCapacity int
}

// View is a session as the rest of the fleet may know it.
type View struct {
	Identity
	Active          bool
	Draining        bool
	Offers          []Offer
	Capabilities    []string
	MaxRequestBytes int64
	// Dialect is v1 or v2.
	Dialect string
	// Hardware is what the agent says of its machine, nil for nothing. It is not
	// changed once it is here.
	Hardware *gpu.Report
	// Capacity bounds the requests over all models; 0 for no such bound.
	Capacity int
	// ReportedActive and ReportedQueued are the engines' load by the agent's own
	// count.
	ReportedActive, ReportedQueued int
	TakesWarmups                   bool
	Probation                      bool
	Uptime30d                      *float64
}

// Identity says whose session it is; it is empty before Join.
func (s *Session) Identity() Identity {
	if who := s.joined.Load(); who != nil {
		return *who
	}
	return Identity{}
}

// MaxTotal bounds a whole answer on this session; 0 for no bound.
func (s *Session) MaxTotal() time.Duration { return s.terms.total }

// View describes the session as it is now; ok is false when it is not live.
func (s *Session) View() (v View, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = View{
		Identity: s.identity, Active: s.active, Draining: s.draining,
		Capabilities: s.caps, MaxRequestBytes: s.maxBody, Dialect: s.terms.name, Hardware: s.hardware,
		Capacity: s.terms.capacity, ReportedActive: s.load.active, ReportedQueued: s.load.queued,
		TakesWarmups: s.takesWarmups(), Probation: s.probation, Uptime30d: s.uptime30d,
		Offers: make([]Offer, 0, len(s.order)),
	}
	for _, id := range s.order {
		m := s.models[id]
		offer := m.offer
		offer.InFlight = m.inFlight
		v.Offers = append(v.Offers, offer)
	}
	return v, s.phase == phaseLive
}
