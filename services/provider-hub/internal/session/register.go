package session

import (
	"maps"
	"time"

	"svc.internal/pkg/agentwire"
)

// The largest request of an agent that names no bound, and the largest bound that is
// believed of an agent, in bytes.
const (
	defaultRequestBytes = 10 << 20
	maxRequestBytes     = 26 << 20
)

// Begin starts Config.RegisterTimeout.
func (s *Session) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = time.AfterFunc(s.env.Config.RegisterTimeout, s.late)
}

// late closes a session that did not register in time.
func (s *Session) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeLocked(late, closing(agentwire.CodeRegisterTimeout, "no registration in time"))
}

// enrolLocked takes the first registration, whose credential is to be looked up.
func (s *Session) enrolLocked(r *Register) {
	if len(r.ReceiptKey) > 0 {
		s.receiptKey = r.ReceiptKey
	}
	s.identity = Identity{
		NodeID: r.Node, NodeName: Clean(r.NodeName, maxName),
		AgentVersion: Clean(r.AgentVersion, maxVersion), Region: Clean(r.Region, maxRegion),
	}
	for _, c := range r.Capabilities {
		if only(c, 1, maxCapability, "_-") {
			s.caps = append(s.caps, c)
		}
	}
	if s.maxBody = min(r.MaxRequestBytes, maxRequestBytes); s.maxBody <= 0 {
		s.maxBody = defaultRequestBytes
	}
	s.machineLocked(r.Hardware, 0)
	s.newsLocked(r.Models)
	s.credential, s.refused = &r.Credential, r.Refused
	s.moveLocked(enrols)
	if s.deadline != nil {
		s.deadline.Stop()
		s.deadline = nil // an idle session keeps no timer that is over
	}
}

// Enrolment returns the credential of a registration that waits to be looked up. It
// returns each credential once.
func (s *Session) Enrolment() (Credential, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.credential == nil {
		return Credential{}, false
	}
	c := *s.credential
	s.credential = nil
	return c, true
}

// Admit makes a session live after the look-up of its credential, unless the session is
// held or has ended meanwhile. A returned reason ends the connection.
func (s *Session) Admit(g Grant) *CloseReason {
	if !s.identify(g) {
		return nil // it must not replace a session that is live
	}
	warning, why := s.env.Registrar.Join(s)
	if why != nil {
		why.Hold = max(why.Hold, s.env.Config.RefuseHold)
		return why
	}
	if warning != "" {
		g.Warning = warning
	}
	if s.goLive(g) {
		s.env.Registrar.Touch(s)
	}
	return nil
}

// identify notes whose session it is, and reports whether the session may still join.
func (s *Session) identify(g Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() != Admitting {
		return false
	}
	s.identity.ProviderID, s.identity.ProviderName = g.ProviderID, g.ProviderName
	s.identity.KeyID, s.identity.Epoch = g.KeyID, g.Epoch
	s.identity.External, s.identity.Vendor = g.External, g.Vendor
	if s.identity.Region == "" {
		s.identity.Region = g.Region
	}
	s.active, s.probation, s.uptime30d = g.Active, g.Probation, g.Uptime30d
	s.status = g.Status
	who := s.identity
	s.joined.Store(&who)
	return true
}

// goLive makes the session live and acknowledges the registration. It returns false where
// the session is held or has ended meanwhile.
func (s *Session) goLive(g Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.moveLocked(granted) {
		return false
	}
	s.registered()
	s.heartbeat = time.AfterFunc(s.limits.Silence, s.silent)
	s.strays.begin(s.env.Clock.Now())
	s.barLocked()
	g.Warning = warned(g.Warning, s.cutsLocked(), s.barredLocked())
	s.welcomeLocked(g, s.refusedLocked())
	s.refused = nil
	return true
}

// refusedLocked returns the models of the registration that are not taken, with the reasons; nil for
// none.
func (s *Session) refusedLocked() map[string]string {
	all := maps.Clone(s.barred)
	if all == nil {
		return s.refused
	}
	maps.Copy(all, s.refused)
	return all
}

// welcomeLocked answers a registration.
func (s *Session) welcomeLocked(g Grant, refused map[string]string) {
	s.pushLocked(Outbound{Kind: OutRegistered, Name: s.reply, Ack: &Ack{
		Grant: g, HeartbeatInterval: s.env.Config.HeartbeatInterval, Refused: refused,
	}})
}

// silent closes a session whose agent sends no heartbeats.
func (s *Session) silent() { s.Shut(closing(agentwire.CodeProtocolError, "no heartbeat in time")) }
