package connection

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Credential is what a registration shows: the provider key, or a wallet's signature of a
// challenge. It is good for one registration.
type Credential struct {
	Key string
	// Owner is the wallet's address, Signature its signature, and Nonce the challenge's.
	Owner     string
	Signature []byte
	Nonce     string
}

// credential makes the credential of the next registration.
func (l *Link) credential(ctx context.Context) (Credential, error) {
	if l.deps.Credential == nil {
		return Credential{Key: l.cfg.Key.Reveal()}, nil
	}
	return l.deps.Credential(ctx)
}

// registration is the first frame of a session.
func (l *Link) registration(shown Credential) *agentv2.Register {
	r := &agentv2.Register{
		Token: shown.Key, OwnerAddress: shown.Owner, Signature: shown.Signature, AuthNonce: shown.Nonce,
		NodeId: l.cfg.NodeID, NodeName: l.cfg.NodeName, AgentVersion: l.cfg.Version,
		Models: wireOffers(l.offers()), Capabilities: l.capabilities(), Hardware: l.machine(),
		MaxRequestBytes: l.cfg.MaxRequestBytes, Region: l.cfg.Region,
	}
	if l.deps.Receipts != nil {
		r.ReceiptKey = l.deps.Receipts.PublicKey()
	}
	return r
}

// offers are the models as the hub is to see them.
func (l *Link) offers() []Offer {
	offers := l.deps.Offers()
	if l.slots.isPaused() {
		for i := range offers {
			offers[i].Healthy = false
		}
	}
	return offers
}

// capabilities are the configured ones and the features that are known by now.
func (l *Link) capabilities() []string {
	if l.deps.Features == nil {
		return l.cfg.Capabilities
	}
	return slices.Concat(l.cfg.Capabilities, l.deps.Features())
}

// machine is the machine as a message; nil where nothing is known.
func (l *Link) machine() *agentv2.Hardware {
	if l.deps.Hardware == nil {
		return nil
	}
	r := l.deps.Hardware()
	if r == nil {
		return nil
	}
	return &agentv2.Hardware{
		GpuType: r.Type, GpuModel: r.Model, GpuCount: int32(r.Count), MemoryTotalMb: r.MemoryMB,
		ComputeCapability: r.ComputeCapability, DriverVersion: r.Driver, ServingEngine: r.Engine,
	}
}

func wireOffers(offers []Offer) []*agentv2.ModelOffer {
	list := make([]*agentv2.ModelOffer, 0, len(offers))
	for _, o := range offers {
		list = append(list, &agentv2.ModelOffer{
			ModelId: o.ModelID, ContextLength: o.ContextLength, Quantization: o.Quantization,
			Capacity: int32(o.Capacity), Healthy: o.Healthy, EngineModel: o.EngineModel,
			Engine: o.Engine, Revision: o.Revision,
		})
	}
	return list
}

// load is the load of the engines: at least the agent's own requests under way.
func (l *Link) load() (active, queued int) {
	if l.deps.Load != nil {
		active, queued = l.deps.Load()
	}
	return max(active, l.slots.active()), queued
}

// heartbeat reports the state of the models and the load of the engines.
func (l *Link) heartbeat(s *session) {
	active, queued := l.load()
	s.heartbeat(&agentv2.Heartbeat{
		Models: wireOffers(l.offers()), ActiveRequests: int32(active), QueuedRequests: int32(queued),
	})
}

// Fits returns an error when a registration with offers would not fit into a frame.
func (l *Link) Fits(offers []Offer) error {
	register := l.registration(Credential{Key: l.cfg.Key.Reveal()})
	register.Models = wireOffers(offers)
	// Room for health, context length, the engine, features and a wallet's signature, which
	// may come later, and for the frame around them.
	if size := proto.Size(register) + 32*len(offers) + 1024; size > agentwire.MaxMessage {
		return errors.New("the names of the models are too long together: a registration must fit into 64 KiB")
	}
	return nil
}

// sameModels reports whether a registration named the models and capacities of offers.
func sameModels(said []*agentv2.ModelOffer, offers []Offer) bool {
	return slices.EqualFunc(said, offers, func(s *agentv2.ModelOffer, o Offer) bool {
		return s.GetModelId() == o.ModelID && s.GetCapacity() == int32(o.Capacity) &&
			s.GetEngineModel() == o.EngineModel && s.GetQuantization() == o.Quantization && s.GetRevision() == o.Revision
	})
}
