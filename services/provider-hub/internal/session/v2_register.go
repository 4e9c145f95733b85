package session

import (
	"crypto/ed25519"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/gpu"
)

// register takes the first frame. Needs the mutex.
func (d *v2) register(r *agentv2.Register) *Closing {
	s := d.s
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
	s.identity = Identity{
		NodeID: r.GetNodeId(), NodeName: Clean(r.GetNodeName(), maxName),
		AgentVersion: Clean(r.GetAgentVersion(), maxVersion), Region: Clean(r.GetRegion(), maxRegion),
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
	if h := r.GetHardware(); h != nil {
		s.machine(v2Hardware(h))
	}
	offers, refused := v2Offers(r.GetModels())
	s.offer(offers)
	s.enrol(Credential{
		Key: r.GetToken(), Owner: r.GetOwnerAddress(), Signature: r.GetSignature(), Nonce: r.GetAuthNonce(),
	}, refused)
	return nil
}

func v2Hardware(h *agentv2.Hardware) *gpu.Report {
	return bounded(gpu.Report{
		Type: h.GetGpuType(), Model: h.GetGpuModel(), Count: int(h.GetGpuCount()), MemoryMB: h.GetMemoryTotalMb(),
		ComputeCapability: h.GetComputeCapability(), Driver: h.GetDriverVersion(), CUDA: h.GetCudaVersion(),
		Engine: h.GetServingEngine(),
	})
}

// v2Offers takes a list of models, and says which of them are refused.
func v2Offers(list []*agentv2.ModelOffer) (offers []Offer, refused map[string]string) {
	refused = map[string]string{}
	offers = make([]Offer, 0, len(list))
	seen := make(map[string]struct{}, len(list))
	for _, o := range list {
		id := o.GetModelId()
		if !validModelID(id) {
			refused[Clean(id, maxModelID)] = "not a model id"
			continue
		}
		if _, twice := seen[id]; twice {
			refused[id] = "registered twice"
			continue
		}
		seen[id] = struct{}{}
		offers = append(offers, v2Offer(o))
	}
	return offers, refused
}

func v2Offer(o *agentv2.ModelOffer) Offer {
	return Offer{
		Model: o.GetModelId(), ContextLength: o.GetContextLength(), Quantization: o.GetQuantization(),
		Capacity: int(o.GetCapacity()), Healthy: o.GetHealthy(), EngineModel: o.GetEngineModel(),
	}.normal()
}

// onHeartbeat needs the mutex.
func (d *v2) onHeartbeat(h *agentv2.Heartbeat) *Closing {
	s := d.s
	if why := s.chat(); why != nil {
		return why
	}
	if len(h.GetModels()) > maxModels {
		return closing(CodeTooManyModels, "at most 256 models can be offered")
	}
	s.heartbeat.Reset(s.terms.silence)
	d.push(&agentv2.Frame{Body: &agentv2.Frame_HeartbeatAck{HeartbeatAck: &agentv2.HeartbeatAck{}}})
	changed := s.reports(load{active: int(h.GetActiveRequests()), queued: int(h.GetQueuedRequests())})
	if len(h.GetModels()) > 0 && s.differs(h.GetModels()) {
		offers, _ := v2Offers(h.GetModels())
		changed = s.offer(offers) || changed
	}
	if changed {
		s.house.registrar.Touch(s)
	}
	return nil
}

// differs reports whether a heartbeat says anything new, without building what
// most do not need. Needs the mutex.
func (s *Session) differs(list []*agentv2.ModelOffer) bool {
	if len(list) != len(s.order) {
		return true
	}
	for _, o := range list {
		m := s.models[o.GetModelId()]
		if m == nil || m.offer != v2Offer(o) {
			return true
		}
	}
	return false
}
