package events

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	presenceInterval = 10 * time.Second
	presenceDelay    = 100 * time.Millisecond
	presencePart     = 500
	presenceBytes    = 512 << 10
)

// Presence reports to the routers which sessions stand on this hub.
type Presence struct {
	hubID, address string
	incarnation    int64
	bus            *bus.Conn
	registry       *registry.Registry
	log            *slog.Logger

	asked    chan struct{}
	draining atomic.Bool
	revision uint64 // for Run only
}

// NewPresence reports the sessions of reg, which are dispatched to at address.
// incarnation is the start of this process, in Unix milliseconds.
func NewPresence(
	hubID, address string, incarnation int64, conn *bus.Conn, reg *registry.Registry, log *slog.Logger,
) *Presence {
	return &Presence{
		hubID: hubID, address: address, incarnation: incarnation, bus: conn, registry: reg, log: log,
		asked: make(chan struct{}, 1),
	}
}

// Drain makes every session appear as draining, at once.
func (p *Presence) Drain() {
	p.draining.Store(true)
	p.ask()
}

// ask asks for a full report soon.
func (p *Presence) ask() {
	select {
	case p.asked <- struct{}{}:
	default:
	}
}

// Run reports everything every 10 s and when asked, and changes within 100 ms, until ctx
// ends. Then it reports that no session is left.
func (p *Presence) Run(ctx context.Context) error {
	sync, err := p.bus.Subscribe(bus.SubjectPresenceSync, "", func(context.Context, bus.Message) { p.ask() })
	if err != nil {
		return err
	}
	others, err := p.bus.Subscribe(bus.SubjectPresenceAll, "",
		func(_ context.Context, m bus.Message) { p.onOther(m.Data) })
	if err != nil {
		return err
	}
	p.loop(ctx)
	p.report(context.WithoutCancel(ctx), nil)
	if err := sync.Stop(); err != nil {
		return err
	}
	return others.Stop()
}

func (p *Presence) loop(ctx context.Context) {
	every := time.NewTicker(presenceInterval)
	defer every.Stop()
	p.report(ctx, p.registry.Views())
	for {
		full := false
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			full = true
		case <-p.asked:
			full = true
		case <-p.registry.Changed():
		}
		// The pause also guards against routers that ask all at once.
		if clock.Sleep(ctx, presenceDelay) != nil {
			return
		}
		p.tell(ctx, full)
	}
}

// tell publishes what has changed, or everything.
func (p *Presence) tell(ctx context.Context, full bool) {
	live, ended, overflow := p.registry.Changes()
	if full || overflow {
		p.report(ctx, p.registry.Views())
		return
	}
	for _, part := range p.parts(live) {
		p.publish(ctx, &eventsv1.Presence{Sessions: part})
	}
	for len(ended) > 0 {
		n := min(len(ended), presencePart)
		p.publish(ctx, &eventsv1.Presence{EndedEpochs: ended[:n]})
		ended = ended[n:]
	}
}

// report publishes everything in parts. There is at least one part, so that routers learn
// that sessions have ended.
func (p *Presence) report(ctx context.Context, views []session.View) {
	parts := p.parts(views)
	if len(parts) == 0 {
		parts = append(parts, nil)
	}
	for i, part := range parts {
		p.publish(ctx, &eventsv1.Presence{Full: true, Part: uint32(i), Parts: uint32(len(parts)), Sessions: part})
	}
}

// parts splits sessions into messages that the server accepts.
func (p *Presence) parts(views []session.View) [][]*eventsv1.Session {
	var parts [][]*eventsv1.Session
	var part []*eventsv1.Session
	size := 0
	for _, v := range views {
		s := sessionOf(v, p.registry.Public(v.ProviderID), p.draining.Load())
		s.Identities = p.registry.Identities(v.ProviderID, v.NodeID)
		n := proto.Size(s)
		if len(part) == presencePart || len(part) > 0 && size+n > presenceBytes {
			parts, part, size = append(parts, part), nil, 0
		}
		part = append(part, s)
		size += n
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

func (p *Presence) publish(ctx context.Context, m *eventsv1.Presence) {
	p.revision++
	m.HubId, m.DispatchAddress, m.Incarnation, m.Revision = p.hubID, p.address, p.incarnation, p.revision
	data, err := encode(m)
	if err == nil {
		err = p.bus.Publish(ctx, bus.SubjectPresence(p.hubID), data, nil)
	}
	if err != nil {
		p.log.Warn("presence was not reported", "error", err)
	}
}

// onOther ends sessions here whose nodes have since connected to another hub.
func (p *Presence) onOther(data []byte) {
	m := &eventsv1.Presence{}
	if proto.Unmarshal(data, m) != nil || m.GetHubId() == p.hubID {
		return
	}
	for _, s := range m.GetSessions() {
		if id, err := ids.ParseProvider(s.GetProviderId()); err == nil {
			p.registry.Supersede(id, s.GetNodeId(), s.GetEpoch())
		}
	}
}
