package session

import (
	"strings"
	"time"

	"svc.internal/services/provider-hub/internal/gpu"
)

// View is what the rest of the fleet may know of a session.
type View struct {
	Identity
	Active          bool
	Draining        bool
	Offers          []Offer
	Capabilities    []string
	MaxRequestBytes int64
	// Dialect is v1 or v2.
	Dialect string
	// Told reports that the agent can be told that the hub drains, and then moves by
	// itself.
	Told bool
	// Hardware is what the agent says of its machine; nil for nothing. The report does
	// not change.
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

// Identity says whose session the session is. It is empty before Join.
func (s *Session) Identity() Identity {
	if who := s.joined.Load(); who != nil {
		return *who
	}
	return Identity{}
}

// MaxTotal bounds a whole answer on this session; 0 for no bound.
func (s *Session) MaxTotal() time.Duration { return s.limits.Total }

// Measured notes a round trip of the connection. The shortest of all counts, because an
// agent can answer a ping late but never early.
func (s *Session) Measured(roundTrip time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if roundTrip > 0 && (s.roundTrip == 0 || roundTrip < s.roundTrip) {
		s.roundTrip = roundTrip
	}
}

// Link is what the caller of a challenge hears of the connection: the dialect, and the
// shortest round trip that pings measured; 0 where none was measured.
func (s *Session) Link() (dialect string, roundTrip time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.Name, s.roundTrip
}

// View describes the session as it is now. ok reports whether the session is registered.
func (s *Session) View() (v View, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.State()
	v = View{
		Identity: s.identity, Active: s.active, Draining: state == Draining || state == Finishing,
		Capabilities: s.caps, MaxRequestBytes: s.maxBody, Dialect: s.limits.Name, Told: s.limits.Strict,
		Hardware: s.hardware, Capacity: s.limits.Capacity,
		ReportedActive: s.load.active, ReportedQueued: s.load.queued,
		TakesWarmups: s.takesWarmupsLocked(), Probation: s.probation, Uptime30d: s.uptime30d,
		Offers: make([]Offer, 0, len(s.order)),
	}
	for _, id := range s.order {
		m := s.models[id]
		offer := m.offer
		offer.InFlight = m.inFlight
		offer.Engine = s.engineLocked(offer.Engine)
		v.Offers = append(v.Offers, offer)
	}
	return v, state.registered()
}

// unknownEngine is what agents call an engine that they did not recognise.
const unknownEngine = "unknown"

// engineLocked is the engine that serves a model: the engine that the model's offer names,
// else the engine of the machine; empty where neither is known.
func (s *Session) engineLocked(offered string) string {
	if offered == "" && s.hardware != nil {
		offered = Clean(s.hardware.Engine, maxEngine)
	}
	if strings.EqualFold(offered, unknownEngine) {
		return ""
	}
	return offered
}
