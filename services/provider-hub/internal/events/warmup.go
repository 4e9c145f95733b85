package events

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/session"
)

// WarmOutcome is the outcome of a warm-up.
type WarmOutcome string

// The outcomes. WarmBusy is a node that was asked lately. WarmGone is a node that takes
// no warm-ups, does not serve the model any more, or is leaving.
const (
	WarmAsked  WarmOutcome = "asked"
	WarmBusy   WarmOutcome = "busy"
	WarmGone   WarmOutcome = "gone"
	WarmLoaded WarmOutcome = "loaded"
	WarmFailed WarmOutcome = "failed"
)

// WarmOutcomes returns every outcome.
func WarmOutcomes() []WarmOutcome {
	return []WarmOutcome{WarmAsked, WarmBusy, WarmGone, WarmLoaded, WarmFailed}
}

// Warmups passes requests to all hubs on to agents: to load a model. Each node is asked
// at most once in five minutes for a model or, where routers suspect it, in 80 seconds.
// Its session ensures that.
type Warmups struct {
	bus      *bus.Conn
	registry *registry.Registry
	count    func(WarmOutcome)
}

// NewWarmups asks the sessions of reg. count is called for every outcome of asking; it
// must not block.
func NewWarmups(conn *bus.Conn, reg *registry.Registry, count func(WarmOutcome)) *Warmups {
	return &Warmups{bus: conn, registry: reg, count: count}
}

// Ask asks all hubs. A zero provider means all providers that serve the model.
func (w *Warmups) Ask(ctx context.Context, model string, providerID ids.ProviderID) error {
	m := &eventsv1.WarmUp{ModelId: model}
	if !providerID.IsZero() {
		m.ProviderId = providerID.String()
	}
	data, err := encode(m)
	if err != nil {
		return err
	}
	if err := w.bus.Publish(ctx, bus.SubjectWarmUp, data, nil); err != nil {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "hubs cannot be told now")
	}
	return nil
}

// Run passes requests on until ctx ends.
func (w *Warmups) Run(ctx context.Context) error {
	asked, err := w.bus.Subscribe(bus.SubjectWarmUp, "", func(_ context.Context, m bus.Message) { w.onAsked(m.Data) })
	if err != nil {
		return err
	}
	<-ctx.Done()
	return asked.Stop()
}

func (w *Warmups) onAsked(data []byte) {
	m := &eventsv1.WarmUp{}
	if proto.Unmarshal(data, m) != nil || m.GetModelId() == "" {
		return
	}
	var providerID ids.ProviderID
	if text := m.GetProviderId(); text != "" {
		var err error
		if providerID, err = ids.ParseProvider(text); err != nil {
			return
		}
	}
	for _, s := range w.registry.Serving(m.GetModelId(), providerID, m.GetNodeId()) {
		ask := s.WarmUp
		if m.GetSuspected() {
			ask = s.Examine
		}
		switch err := ask(m.GetModelId()); {
		case err == nil:
			w.count(WarmAsked)
		case errors.Is(err, session.ErrBusy):
			w.count(WarmBusy)
		default:
			w.count(WarmGone)
		}
	}
}
