package events

import (
	"slices"
	"time"

	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/quant"
)

// reportFromProto reads a presence message. refused counts the sessions that were left
// out. The rest of their message counts. A session counts however its provider is reached.
func reportFromProto(m *eventsv1.Presence) (r offers.Report, refused int, err error) {
	if !text(m.GetHubId(), 1, maxHubID) || !text(m.GetDispatchAddress(), 1, maxText) || m.GetIncarnation() <= 0 ||
		len(m.GetSessions()) > maxSessions || len(m.GetEndedEpochs()) > maxEnded {
		return offers.Report{}, 0, errBounds
	}
	r = offers.Report{
		Hub: m.GetHubId(), Incarnation: m.GetIncarnation(), Address: m.GetDispatchAddress(),
		Revision: m.GetRevision(), Full: m.GetFull(), Part: m.GetPart(), Parts: m.GetParts(),
		Ended: m.GetEndedEpochs(), Sessions: make([]offers.Session, 0, len(m.GetSessions())),
	}
	for _, s := range m.GetSessions() {
		if s.GetVendor() {
			continue // a vendor is asked nothing, so it offers nothing here
		}
		if session, ok := sessionFromProto(s); ok {
			r.Sessions = append(r.Sessions, session)
		} else {
			refused++
		}
	}
	return r, refused, nil
}

func sessionFromProto(m *eventsv1.Session) (offers.Session, bool) {
	provider, err := ids.ParseProvider(m.GetProviderId())
	if err != nil || !text(m.GetNodeId(), 0, maxText) || m.GetEpoch() <= 0 || m.GetMaxRequestBytes() < 0 ||
		!text(m.GetGpuClass(), 0, maxShortText*utf8Width) ||
		len(m.GetModels()) > offers.MaxModels || len(m.GetCapabilities()) > maxCapabilities {
		return offers.Session{}, false
	}
	s := offers.Session{
		Provider: provider, Node: m.GetNodeId(), Epoch: m.GetEpoch(),
		// A reference serves nobody, whatever a hub says of its status.
		Active: m.GetActive() && !m.GetReference(), Draining: m.GetDraining(), Reference: m.GetReference(),
		Probation: m.GetProbation(), Capabilities: slices.Clone(m.GetCapabilities()),
		MaxRequestBytes: m.GetMaxRequestBytes(), GPU: m.GetGpuClass(), Capacity: amount(m.GetCapacity()),
		Models: make([]offers.Model, 0, len(m.GetModels())),
	}
	s.Identities = identitiesFromProto(m.GetIdentities())
	if since := m.GetActiveSince(); since != nil && since.IsValid() {
		s.ActiveSince = since.AsTime().Truncate(time.Microsecond)
	}
	for _, c := range s.Capabilities {
		if !text(c, 1, maxShortText) {
			return offers.Session{}, false
		}
	}
	slices.Sort(s.Capabilities)
	named := make(map[string]bool, len(m.GetModels()))
	for _, o := range m.GetModels() {
		model, ok := modelFromProto(o)
		if !ok || named[model.ID] {
			return offers.Session{}, false
		}
		named[model.ID] = true
		s.Models = append(s.Models, model)
	}
	return s, true
}

// identitiesFromProto reads identities. Those that are malformed, or too many, are dropped:
// the session serves all the same.
func identitiesFromProto(all [][]byte) []identity.Identity {
	var known []identity.Identity
	for _, b := range all[:min(len(all), identity.MaxOfSession)] {
		if one, ok := identity.Parse(b); ok {
			known = append(known, one)
		}
	}
	return identity.Set(known, identity.MaxOfSession)
}

// utf8Width is how many bytes a character has at most. Hubs bound some texts in characters.
const utf8Width = 4

func modelFromProto(m *eventsv1.ModelOffer) (offers.Model, bool) {
	if !text(m.GetModelId(), 1, maxModelID) || !text(m.GetQuantization(), 0, maxShortText) ||
		!text(m.GetEngine(), 0, maxEngine*utf8Width) || !text(m.GetRevision(), 0, maxShortText*utf8Width) {
		return offers.Model{}, false
	}
	return offers.Model{
		ID: m.GetModelId(), Healthy: m.GetHealthy(),
		// A claim of a provider must not cost it its other models.
		Window:   min(max(m.GetReportedContextLength(), 0), maxWindow),
		Capacity: amount(m.GetCapacity()), Quantization: m.GetQuantization(), Class: quant.Parse(m.GetQuantization()),
		Engine: m.GetEngine(), Revision: m.GetRevision(),
	}, true
}

// amount reads a number that an agent states of itself. A number that cannot be true
// becomes the nearest that can.
func amount(n int32) int { return int(min(max(n, 0), maxCapacity)) }
