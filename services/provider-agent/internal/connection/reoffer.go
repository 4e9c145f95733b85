package connection

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

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

// Reoffer registers again, over a connection beside the one that there is, because Offers
// has other models or capacities than before. No request is dropped: the earlier
// connection serves what is open, before included, until the next one is registered.
func (l *Link) Reoffer(before []Offer) {
	l.slots.reoffer(before, l.deps.Offers())
	select {
	case l.anew <- struct{}{}:
	default:
	}
}

// reregister asks for another session unless this one was registered with the models that
// there are.
func (l *Link) reregister(s *session) {
	if !sameModels(s.registered.GetModels(), l.deps.Offers()) {
		s.handOver()
	}
}

// sameModels reports whether a registration named the models and capacities of offers.
func sameModels(said []*agentv2.ModelOffer, offers []Offer) bool {
	return slices.EqualFunc(said, offers, func(s *agentv2.ModelOffer, o Offer) bool {
		return s.GetModelId() == o.ModelID && s.GetCapacity() == int32(o.Capacity) &&
			s.GetEngineModel() == o.EngineModel && s.GetQuantization() == o.Quantization && s.GetRevision() == o.Revision
	})
}
