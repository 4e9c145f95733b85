package connection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Link keeps the agent connected.
type Link struct {
	cfg   Config
	deps  Deps
	slots *slots

	registered chan struct{} // closed by the first acknowledgement
	once       sync.Once

	mu    sync.Mutex
	live  *session // the session that is registered
	fault string   // why there is none
}

// New makes a link. It fails when the registration would not fit into a frame.
func New(cfg Config, deps Deps) (*Link, error) {
	offers := deps.Offers()
	size := proto.Size(&agentv2.Register{
		Token: cfg.Key.Reveal(), NodeId: cfg.NodeID, NodeName: cfg.NodeName, AgentVersion: cfg.Version,
		Models: wireOffers(offers), Region: cfg.Region, Capabilities: cfg.Capabilities,
	})
	// What health and context length may add later, and the frame around it.
	if size += 16*len(offers) + 256; size > maxMessage {
		return nil, errors.New("the names of the models are too long together: a registration must fit into 64 KiB")
	}
	return &Link{
		cfg: cfg, deps: deps, slots: newSlots(offers, cfg.MaxBufferedBytes),
		registered: make(chan struct{}), fault: "not connected yet",
	}, nil
}

// Registered is closed once a hub has acknowledged the agent for the first time.
func (l *Link) Registered() <-chan struct{} { return l.registered }

// Ready is nil while the agent is registered.
func (l *Link) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live == nil {
		return errors.New("not registered at the hub: " + l.fault)
	}
	return nil
}

// Run keeps the agent connected until ctx ends; then it takes no new requests,
// lets those under way end within DrainTimeout and returns nil. It must be
// called once.
func (l *Link) Run(ctx context.Context) error {
	wait := backoff{random: l.deps.Random}
	told := ""
	for {
		end := l.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		pause := wait.after(end)
		l.note(nil, end.reason())
		told = l.tell(end, pause, told)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// session keeps one session from dialling to its end.
func (l *Link) session(ctx context.Context) ending {
	conn, failed := dial(ctx, l.cfg, l.deps)
	if failed != nil {
		return *failed
	}
	s := newSession(l.cfg, l.deps.Log, l.deps.Serve, l.slots)
	s.receipts, s.clock = l.deps.Receipts, l.deps.Clock
	s.register(l.deps.Offers())
	var work sync.WaitGroup
	work.Go(func() {
		if why := conn.read(s); why != nil {
			s.fail(why)
		}
	})
	work.Go(func() {
		if why := conn.write(s); why != nil {
			s.fail(why)
		}
	})
	lived := l.keep(ctx, s)
	l.note(nil, "the session ended")
	work.Wait()
	s.work.Wait()
	end := *s.end
	end.lived = lived
	return end
}

// keep sends heartbeats, pings and receipts until the session is over, and drains it when
// ctx ends. It returns how long the session was registered.
func (l *Link) keep(ctx context.Context, s *session) time.Duration {
	pings := time.NewTicker(pingInterval)
	defer pings.Stop()
	beats := time.NewTicker(heartbeatDefault)
	defer beats.Stop()
	acked, stop := s.acked, ctx.Done()
	var claims <-chan time.Time // begins with the registration
	var overdue <-chan time.Time
	var since time.Time
	for {
		select {
		case <-s.over:
			if since.IsZero() {
				return 0
			}
			return l.deps.Clock.Now().Sub(since)
		case <-acked:
			acked = nil
			since = l.deps.Clock.Now()
			beats.Reset(l.welcome(s))
			if s.receipts != nil {
				s.receipts.Connected()
				ticker := time.NewTicker(receiptsEvery)
				defer ticker.Stop()
				claims = ticker.C
			}
			// Health may have changed while the hub looked the key up.
			s.heartbeat(l.deps.Offers(), l.slots.active())
		case <-beats.C:
			s.sweep()
			s.heartbeat(l.deps.Offers(), l.slots.active())
		case <-l.deps.Changed:
			s.heartbeat(l.deps.Offers(), l.slots.active())
		case <-claims:
			s.claims()
		case <-pings.C:
			s.ping()
		case <-stop:
			stop = nil
			l.deps.Log.Info("stopping: no new requests are taken", "under_way", l.slots.active(), "at_most", l.cfg.DrainTimeout)
			s.drain()
			timer := time.NewTimer(l.cfg.DrainTimeout)
			defer timer.Stop()
			overdue = timer.C
		case <-overdue:
			s.fail(&ending{text: "requests were still under way at the end of the drain"})
		}
	}
}

// welcome tells the owner that the agent is registered, and returns how often
// the hub wants heartbeats.
func (l *Link) welcome(s *session) time.Duration {
	l.note(s, "")
	l.once.Do(func() { close(l.registered) })
	ack := s.ack
	log := l.deps.Log.With("provider", clean(ack.GetProviderName()), "provider_id", clean(ack.GetProviderId()))
	log.Info("registered at the hub", "status", clean(ack.GetStatus()), "epoch", ack.GetEpoch(), "models", len(l.deps.Offers()))
	for _, model := range slices.Sorted(maps.Keys(ack.GetRefusedModels())) {
		log.Warn("the hub refuses a model", "model", clean(model), "reason", clean(ack.GetRefusedModels()[model]))
	}
	if status := ack.GetStatus(); status != "" && status != "active" {
		log.Warn("the provider account is not active: no requests will come", "status", clean(status))
	}
	every := time.Duration(min(ack.GetHeartbeatIntervalMs(), heartbeatMost.Milliseconds())) * time.Millisecond
	if every <= 0 {
		return heartbeatDefault
	}
	return max(every, heartbeatLeast)
}

// note keeps what Ready says.
func (l *Link) note(live *session, fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.fault = live, fault
}

// tell logs why a session ended. A reason that was just told is for debugging
// only, so that an agent left alone does not fill a disk.
func (l *Link) tell(e ending, pause time.Duration, told string) string {
	reason := e.reason()
	args := []any{"reason", reason, "retry_in", pause.Round(time.Millisecond)}
	text := "not connected to the hub"
	switch e.code {
	case codeInvalidKey, codeKeyRevoked:
		text = "the hub refuses the provider key; set SVC_PROVIDER_KEY to a valid one"
	case codeSuspended:
		text = "the hub refuses the agent: the provider account is suspended"
	case codeSuperseded:
		text = fmt.Sprintf("another agent with the node id %s is connected; give each machine its own state folder", l.cfg.NodeID)
	}
	switch {
	case reason == told && e.lived == 0:
		l.deps.Log.Debug(text, args...)
	case text != "not connected to the hub":
		l.deps.Log.Error(text, args...)
	default:
		l.deps.Log.Warn(text, args...)
	}
	return reason
}
