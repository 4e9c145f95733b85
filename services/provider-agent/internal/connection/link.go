package connection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Link keeps the agent connected.
type Link struct {
	cfg    Config
	deps   Deps
	slots  *slots
	warmer *warmer // nil when warm-ups are not taken
	prover *prover // nil when challenges are not taken

	registered chan struct{} // closed by the first acknowledgement
	once       sync.Once
	anew       chan struct{} // signalled to ask for another registration

	// nudge is signalled to ask for a heartbeat now.
	nudge chan struct{}

	mu    sync.Mutex
	live  *session // the session that is registered
	fault string   // why no session is registered

	said told
}

// New makes a link. It fails when the registration would not fit into a frame.
func New(cfg Config, deps Deps) (*Link, error) {
	offers := deps.Offers()
	l := &Link{
		cfg: cfg, deps: deps, slots: newSlots(offers, cfg.MaxBufferedBytes),
		registered: make(chan struct{}), fault: "not connected yet",
		nudge: make(chan struct{}, 1), anew: make(chan struct{}, 1),
	}
	if deps.Warm != nil {
		l.warmer = newWarmer(deps.Warm, deps.Clock)
	}
	if deps.Prove != nil {
		l.prover = newProver(deps.Prove)
	}
	if err := l.Fits(offers); err != nil {
		return nil, err
	}
	return l, nil
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

// View returns what the link knows.
func (l *Link) View() View {
	l.mu.Lock()
	fault := l.fault
	l.mu.Unlock()
	v := l.said.seen(l.deps.Clock.Now())
	v.Fault, v.Paused, v.UnderWay = fault, l.slots.isPaused(), l.slots.active()
	return v
}

// Pause takes no new requests, or takes them again. The connection stays, and requests
// under way go on. The hub is told at once that the models are not healthy. A request that comes
// before the hub has heard is answered busy.
func (l *Link) Pause(paused bool) {
	l.slots.pause(paused)
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}

// Run keeps the agent connected until ctx ends. Then it takes no new requests, lets the
// requests under way end within DrainTimeout, and returns nil. It must be called once.
//
// When a hub drains, or must hear of a changed machine, the connection to it is kept,
// idle or not, until another one is registered. So no moment is without a hub, if another
// hub takes the agent.
func (l *Link) Run(ctx context.Context) error {
	wait := backoff{random: l.deps.Random}
	var leaving connections
	defer leaving.wait()
	told := ""
	for {
		end, moving := l.hold(ctx, &leaving)
		if ctx.Err() != nil {
			return nil
		}
		var pause time.Duration
		if moving {
			pause = wait.beside(end)
			l.deps.Log.Info("the agent connects anew before it leaves this connection", "reason", end.reason(), "in",
				pause.Round(time.Millisecond), "under_way", l.slots.active())
		} else {
			pause = wait.after(end)
			told = l.tell(end, pause, told)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// keep sends heartbeats, pings and receipts until the session is over, and drains it when
// ctx ends. It returns how long the session was registered.
func (l *Link) keep(ctx context.Context, ln *connection) time.Duration {
	s := ln.session
	pings := time.NewTicker(pingInterval)
	defer pings.Stop()
	beats := time.NewTicker(heartbeatDefault)
	defer beats.Stop()
	acked, stop := s.acked, ctx.Done()
	// A session that takes nothing new leaves heartbeats to its successor.
	changed, nudge, drained := l.deps.Changed, l.nudge, s.drained
	var anew <-chan struct{}    // begins with the registration
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
			anew = l.anew
			close(ln.up)
			if s.receipts != nil {
				s.receipts.Connected()
				ticker := time.NewTicker(receiptsInterval)
				defer ticker.Stop()
				claims = ticker.C
			}
			// Health may have changed while the hub looked the key up.
			l.heartbeat(s)
		case <-beats.C:
			s.sweep()
			l.heartbeat(s)
			l.renew(s, since)
		case <-drained:
			drained, changed, nudge, anew = nil, nil, nil, nil
		case <-changed:
			l.heartbeat(s)
		case <-nudge:
			l.heartbeat(s)
		case ack := <-s.beats:
			l.heard(ack)
		case <-anew:
			l.reregister(s)
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

// renew registers again, beside the session, when the machine or the features differ from
// the last registration: the kind of an engine that was started after the agent, and what
// the engine can do, are known only then. The pause between two renewals keeps engines
// that start and stop from causing one each time.
func (l *Link) renew(s *session, since time.Time) {
	if since.IsZero() || l.deps.Clock.Now().Sub(since) < stable {
		return
	}
	said := s.registered
	if !proto.Equal(said.GetHardware(), l.machine()) || !slices.Equal(said.GetCapabilities(), l.capabilities()) ||
		!sameModels(said.GetModels(), l.deps.Offers()) {
		s.handOver()
	}
}

// levelOf is the level of a status that brings no requests. An account that waits for what
// every account waits for is nothing to be warned of.
func levelOf(status string) slog.Level {
	if slices.Contains([]string{"pending", "under_review", "approved", "activating"}, status) {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// welcome logs that the agent is registered, and returns the hub's interval of
// heartbeats.
func (l *Link) welcome(s *session) time.Duration {
	l.said.welcome(s.ack)
	l.note(s, "")
	l.once.Do(func() { close(l.registered) })
	ack := s.ack
	log := l.deps.Log.With("provider", clean(ack.GetProviderName()), "provider_id", clean(ack.GetProviderId()))
	log.Info("registered at the hub", "status", clean(ack.GetStatus()), "epoch", ack.GetEpoch(),
		"models", len(l.deps.Offers()))
	for _, model := range slices.Sorted(maps.Keys(ack.GetRefusedModels())) {
		log.Warn("the hub refuses a model", "model", clean(model), "reason", clean(ack.GetRefusedModels()[model]))
	}
	if status := clean(ack.GetStatus()); status != "" && status != active {
		l.tellStatus(status)
	}
	if warning := ack.GetWarning(); warning != "" {
		log.Warn("the hub warns: " + cut(clean(warning), maxError))
	}
	every := time.Duration(min(ack.GetHeartbeatIntervalMs(), maxHeartbeat.Milliseconds())) * time.Millisecond
	if every <= 0 {
		return heartbeatDefault
	}
	return max(every, heartbeatLeast)
}

// active is the status of an account that gets requests.
const active = "active"

// tellStatus logs that an account is not active.
func (l *Link) tellStatus(status string) {
	l.deps.Log.Log(context.Background(), levelOf(status), "the provider account is not active: no requests will come",
		"status", status, "meaning", meaningOf(status))
}

// heard takes the answer to a heartbeat, and logs what has changed.
func (l *Link) heard(ack *agentv2.HeartbeatAck) {
	status, machines := l.said.beat(ack)
	switch status {
	case "":
	case active:
		l.deps.Log.Info("the provider account is active: requests may come")
	default:
		l.tellStatus(status)
	}
	if machines > 0 {
		l.deps.Log.Warn("another machine is connected with this provider account; if it is not yours, "+
			"somebody has your key: replace it", "machines", machines)
	}
}

// meaningOf says what an owner can do about a status.
func meaningOf(status string) string {
	switch status {
	case "pending":
		return "the account waits for its collateral, a benchmark and a GPU that suffices," +
			" or for a review that you ask for; see svc-agent status"
	case "under_review":
		return "an operator looks at the account; nothing is to be done"
	case "approved":
		return "the account is approved; deposit the collateral"
	case "activating":
		return "the collateral is confirmed; the benchmark is still to be passed, so keep the agent connected"
	default:
		return "see svc-agent status"
	}
}

// note keeps the result of Ready.
func (l *Link) note(live *session, fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.fault = live, fault
	l.said.up(l.deps.Clock.Now())
}

// gone notes that a session is over, unless another one has taken its place.
func (l *Link) gone(s *session, fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live == s || l.live == nil {
		l.live, l.fault = nil, fault
		l.said.down(l.deps.Clock.Now())
	}
}

// tell logs why a session ended. A reason that was just logged is repeated for debugging
// only, so that an agent left alone does not fill a disk.
func (l *Link) tell(e ending, pause time.Duration, told string) string {
	reason := e.reason()
	args := []any{"reason", reason, "retry_in", pause.Round(time.Millisecond)}
	text := "not connected to the hub"
	switch e.code {
	case agentwire.CodeInvalidKey, agentwire.CodeKeyRevoked:
		text = "the hub refuses the provider key; set SVC_PROVIDER_KEY to a valid one"
		if l.deps.Credential != nil {
			text = "the hub refuses the wallet's sign-in; is it the wallet of a provider account?"
		}
	case agentwire.CodeSuspended:
		text = "the hub refuses the agent: the provider account is suspended"
	case agentwire.CodeSuperseded:
		text = fmt.Sprintf("another agent with the node id %s is connected; give each machine its own state folder",
			l.cfg.NodeID)
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

// reregister asks for another session unless this session was registered with the models as
// they are now.
func (l *Link) reregister(s *session) {
	if !sameModels(s.registered.GetModels(), l.deps.Offers()) {
		s.handOver()
	}
}
