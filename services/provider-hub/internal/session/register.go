package session

import (
	"context"
	"crypto/ed25519"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

const (
	defaultCapacity = 10
	maxCapacity     = 1024
	maxContext      = 1 << 31

	// What an agent takes that does not say, and the most that is ever sent.
	defaultRequestBytes = 10 << 20
	maxRequestBytes     = 26 << 20
)

// Grant is what a provider key entitles to.
type Grant struct {
	ProviderID   ids.ProviderID
	ProviderName string
	KeyID        ids.KeyID
	// Status is what the agent tells its owner; Active whether consumers are
	// served.
	Status string
	Active bool
	Region string
	// Epoch is newer than that of any session before.
	Epoch int64
}

// Registrar decides who may register and keeps the sessions that stand.
type Registrar interface {
	// Admit checks a key. A fault's reason becomes the code of the refusal;
	// any other error asks the agent to come back later.
	Admit(ctx context.Context, key string) (Grant, error)
	// Join adds a session that has its identity, unless a newer one of the
	// node is there or the provider has too many; it shuts an older one.
	Join(s *Session) *Closing
	// Leave takes it off. It is called once for every session, joined or not.
	Leave(s *Session)
	// Touch says that the session's view has changed. It is called under the
	// session's lock.
	Touch(s *Session)
}

// register takes the first frame and has the key looked up elsewhere, so that
// the reader goes on. Needs the mutex.
func (s *Session) register(r *agentv2.Register) *Closing {
	if s.phase != phaseNew {
		return protocolError("registered twice")
	}
	switch {
	case len(r.GetModels()) > maxModels:
		return s.refused(CodeTooManyModels, "at most 256 models can be registered")
	case len(r.GetCapabilities()) > maxCapabilities:
		return s.refused(CodeProtocolError, "at most 32 capabilities can be declared")
	case !validNodeID(r.GetNodeId()):
		return s.refused(CodeProtocolError, "node_id must be 8 to 64 of letters, digits, dot, underscore and hyphen")
	case len(r.GetReceiptKey()) != 0 && len(r.GetReceiptKey()) != ed25519.PublicKeySize:
		return s.refused(CodeProtocolError, "receipt_key must be the 32 bytes of an Ed25519 public key")
	}
	if len(r.GetReceiptKey()) > 0 {
		s.receiptKey = r.GetReceiptKey()
	}
	s.phase = phaseAdmitting
	s.deadline.Stop()
	s.identity = Identity{
		NodeID: r.GetNodeId(), NodeName: clean(r.GetNodeName(), maxName),
		AgentVersion: clean(r.GetAgentVersion(), maxVersion), Region: clean(r.GetRegion(), maxRegion),
	}
	for _, c := range r.GetCapabilities() {
		if only(c, 1, maxCapability, "_-") {
			s.caps = append(s.caps, c)
		}
	}
	s.maxBody = min(r.GetMaxRequestBytes(), maxRequestBytes)
	if s.maxBody <= 0 {
		s.maxBody = defaultRequestBytes
	}
	refused := s.offer(r.GetModels())
	key := r.GetToken()
	s.admission.Go(func() { s.admit(key, refused) })
	return nil
}

// refused holds the socket, or an agent that dials at once would spin.
func (s *Session) refused(code, message string) *Closing {
	return &Closing{Code: code, Message: message, Hold: s.cfg.RefuseHold, ReconnectAfter: s.cfg.RefuseHold}
}

// admit finishes a registration. It runs in a goroutine of its own.
func (s *Session) admit(key string, refused map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.AdmitTimeout)
	defer cancel()
	grant, err := s.registrar.Admit(ctx, key)
	if err != nil {
		s.Shut(s.refusal(err))
		return
	}
	s.mu.Lock()
	s.identity.ProviderID, s.identity.ProviderName = grant.ProviderID, grant.ProviderName
	s.identity.KeyID, s.identity.Epoch = grant.KeyID, grant.Epoch
	if s.identity.Region == "" {
		s.identity.Region = grant.Region
	}
	s.active = grant.Active
	who := s.identity
	s.mu.Unlock()
	s.joined.Store(&who)
	if why := s.registrar.Join(s); why != nil {
		why.Hold = s.cfg.RefuseHold
		s.Shut(why)
		return
	}
	if s.goLive(grant, refused) {
		s.registrar.Touch(s)
	}
}

// refusal is what a failed admission looks like to the agent.
func (s *Session) refusal(err error) *Closing {
	f, ok := fault.As(err)
	if !ok {
		return s.refused(CodeTryLater, "the hub cannot check keys now")
	}
	switch f.Reason {
	case fault.InvalidAPIKey:
		return s.refused(CodeInvalidKey, f.Message)
	case fault.KeyRevoked:
		return s.refused(CodeKeyRevoked, f.Message)
	case fault.AccountFrozen:
		return s.refused(CodeSuspended, f.Message)
	default:
		return s.refused(CodeTryLater, "the hub cannot check keys now")
	}
}

// goLive acknowledges the registration, unless the session ended meanwhile.
func (s *Session) goLive(grant Grant, refused map[string]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseAdmitting {
		return false
	}
	s.phase = phaseLive
	s.heartbeat = time.AfterFunc(s.cfg.SessionTimeout, s.silent)
	s.push(&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{
		ProviderId: grant.ProviderID.String(), ProviderName: grant.ProviderName, Epoch: grant.Epoch,
		Status: grant.Status, HeartbeatIntervalMs: s.cfg.HeartbeatInterval.Milliseconds(), RefusedModels: refused,
	}}})
	return true
}

// silent ends a session whose agent sends no heartbeats.
func (s *Session) silent() { s.Shut(closing(CodeProtocolError, "no heartbeat in time")) }

// late ends a socket that did not register.
func (s *Session) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseNew {
		s.shut(closing(CodeRegisterTimeout, "no registration in time"))
	}
}

// offer replaces the models that the session serves and returns those refused.
// Slots that are taken stay taken. Needs the mutex.
func (s *Session) offer(list []*agentv2.ModelOffer) map[string]string {
	refused := map[string]string{}
	models := make(map[string]*model, len(list))
	order := make([]string, 0, len(list))
	for _, o := range list {
		id := o.GetModelId()
		if !validModelID(id) {
			refused[clean(id, maxModelID)] = "not a model id"
			continue
		}
		if _, twice := models[id]; twice {
			refused[id] = "registered twice"
			continue
		}
		m := &model{offer: offerOf(o)}
		if old := s.models[id]; old != nil {
			m = old
			m.offer = offerOf(o)
		}
		models[id] = m
		order = append(order, id)
	}
	s.models, s.order = models, order
	return refused
}

func offerOf(o *agentv2.ModelOffer) Offer {
	offer := Offer{
		Model: o.GetModelId(), ContextLength: o.GetContextLength(), Quantization: clean(o.GetQuantization(), maxQuantization),
		Capacity: int(o.GetCapacity()), Healthy: o.GetHealthy(),
	}
	if offer.ContextLength < 0 || offer.ContextLength > maxContext {
		offer.ContextLength = 0
	}
	if offer.Capacity <= 0 {
		offer.Capacity = defaultCapacity
	}
	offer.Capacity = min(offer.Capacity, maxCapacity)
	return offer
}
