package fakeagent

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// V1 is a provider's agent of dialect v1 as it runs on machines today: a
// process that dials by itself, comes back by itself, and has the habits that
// the public agent was observed to have, the fragile ones included.
//
//	agent := fakeagent.StartV1(fakeagent.V1Options{
//		URL: "ws://127.0.0.1:8081", Key: key, Models: []string{"acme/tiny"},
//		Handler: fakeagent.V1Answer("Hello", " world"),
//	})
//	defer agent.Stop()
//	err := agent.AwaitRegistered(ctx)
//
// What it does without being told: it asks for its status once before it dials,
// and takes JSON without api_key_valid:true for a refusal for ever; it gives up
// for ever when its first dial is refused; it comes back at once when it is
// closed, and only a refused dial makes it wait; closed young too often, it
// loses its reconnect loop and is dead although its process lives; what its engine
// still says of requests of a lost connection it sends on the next one; it pings
// and takes only pongs for a sign of life; it refuses messages above 1 MiB with
// 1009; it aborts a stream that nobody reads, and the connection after three.
//
// It is safe for concurrent use.
type V1 struct {
	opts  V1Options
	ctx   context.Context
	stop  context.CancelFunc
	loops sync.WaitGroup
	slots v1Slots
	beats *time.Ticker
	asked chan *V1Request

	mu       sync.Mutex
	state    V1State       // what State copies
	changed  chan struct{} // closed and replaced when anything in State changes or a message comes
	conn     *v1Conn       // nil between connections
	received []V1Frame
	missed   int
	served   v1Served
}

// Why an agent never dials again.
var (
	ErrV1Refused   = errors.New("v1 agent: its status says that it may not connect")
	ErrV1FirstDial = errors.New("v1 agent: its first dial was refused")
	ErrV1Guard     = errors.New("v1 agent: it was closed young too often and lost its reconnect loop")
	ErrV1Stopped   = errors.New("v1 agent: it was stopped")
)

// V1Timing has the durations of the agent's habits.
type V1Timing struct {
	// Heartbeat is the pause between heartbeats, Ping between pings; PongWait is
	// how long the connection lives without a pong.
	Heartbeat, Ping, PongWait time.Duration
	// Reconnect is the pause before the first dial after a close, Backoff those
	// after dials that were refused; the last one repeats.
	Reconnect time.Duration
	Backoff   []time.Duration
	// Stall is how long a chunk waits for room in the buffer, Patience how long
	// a registration, the end of a stream or a whole answer does, and how long
	// one write may take.
	Stall, Patience time.Duration
	// SlotWait is how long a request waits for a slot, StreamLimit how long one
	// stream may take.
	SlotWait, StreamLimit time.Duration
	// Young is the age below which a close counts towards the reconnect race.
	Young time.Duration
	// Status bounds the call for the status, Handshake the dial.
	Status, Handshake time.Duration
}

// V1Observed returns the durations of the public agent.
func V1Observed() V1Timing {
	s := time.Second
	return V1Timing{
		Heartbeat: 30 * s, Ping: 54 * s, PongWait: 60 * s, Reconnect: time.Millisecond,
		Backoff: []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s},
		Stall:   5 * s, Patience: 10 * s, SlotWait: 30 * s, StreamLimit: 300 * s,
		Young: s, Status: 10 * s, Handshake: 10 * s,
	}
}

// Faster returns the same durations divided by n, except for the bounds of single calls,
// so that a test need not wait.
func (t V1Timing) Faster(n int) V1Timing {
	by := time.Duration(n)
	for _, d := range []*time.Duration{
		&t.Heartbeat, &t.Ping, &t.PongWait, &t.Stall, &t.Patience, &t.SlotWait, &t.StreamLimit, &t.Young,
	} {
		*d /= by
	}
	backoff := make([]time.Duration, len(t.Backoff))
	for i, d := range t.Backoff {
		backoff[i] = d / by
	}
	t.Backoff = backoff
	return t
}

// V1Options are the agent's identity and behaviour.
type V1Options struct {
	// URL is the configured WebSocket URL; /ws is put behind it. ServiceURL is
	// where the status is asked for, empty to leave that out; V1ServiceURL
	// derives it as the agent does.
	URL, ServiceURL string
	// Key is the provider key. NodeID is V1NodeKey(Key+NodeName) and NodeName
	// "test-node" when empty.
	Key, NodeID, NodeName string
	// Models are served, all of them healthy. NoModels sends null for them.
	Models   []string
	NoModels bool
	// LocalModel replaces the model in requests; "local-model" when empty.
	LocalModel string
	// ContextLength is reported when it is set, as newer agents do.
	ContextLength int64
	// Hardware is left out when nil: a machine without a GPU.
	Hardware *V1Hardware
	// Metrics are sent with heartbeats beside the agent's own counts.
	Metrics map[string]float64
	// Manifest has the hashes of files for fingerprints.
	Manifest map[string]string
	// Timing is V1Observed() when its Heartbeat is zero.
	Timing V1Timing
	// GuardAfter is how many connections in a row may be closed young before
	// the reconnect race is lost: 93 when zero.
	GuardAfter int
	// MaxInFlight and MaxPerModel bound requests, 50 and 10 when zero; Rate
	// bounds those a second, 100 with a burst of 50 when zero, none when
	// negative.
	MaxInFlight, MaxPerModel int
	Rate                     float64
	// Handler answers each request in a goroutine of its own; nil leaves them
	// to Requests.
	Handler func(*V1Request)
	// Tasks, when set, takes each verify and benchmark of the hub in a goroutine of
	// its own, in place of the agent's own replies, so that a test replies with Send:
	// late, twice, to another challenge, or with what is absurd.
	Tasks func(V1Frame)
	// NoHeartbeats leaves the session to die, Deaf reads nothing at all, NoPongs
	// leaves the hub's pings unanswered.
	NoHeartbeats, Deaf, NoPongs bool
	// NetDial replaces the network, for pipes.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// withDefaults fills what is empty.
func (o V1Options) withDefaults() V1Options {
	if o.NodeName == "" {
		o.NodeName = "test-node"
	}
	if o.NodeID == "" {
		o.NodeID = V1NodeKey(o.Key + o.NodeName)
	}
	if o.LocalModel == "" {
		o.LocalModel = "local-model"
	}
	if o.Timing.Heartbeat == 0 {
		o.Timing = V1Observed()
	}
	if o.GuardAfter == 0 {
		o.GuardAfter = 93
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 50
	}
	if o.MaxPerModel == 0 {
		o.MaxPerModel = 10
	}
	if o.Rate == 0 {
		o.Rate = 100
	}
	return o
}

// V1NodeKey returns a node_id in the agent's form, 130 hex characters of a public key,
// derived from a seed.
func V1NodeKey(seed string) string {
	sum := sha512.Sum512([]byte(seed))
	return "04" + hex.EncodeToString(sum[:])
}

// V1HubNode returns the hub's name of a node with such a node_id.
func V1HubNode(nodeID string) string {
	sum := sha256.Sum256([]byte(nodeID))
	return "v1-" + hex.EncodeToString(sum[:16])
}

// V1Life is one connection, from the upgrade to its end.
type V1Life struct {
	Opened, Ended time.Time
	// Registered reports whether a successful ack arrived.
	Registered bool
	// Code and Text are the peer's close frame; 0 without one, and 1006 is for
	// a connection that broke off.
	Code int
	Text string
}

// Age returns how long it lasted.
func (l V1Life) Age() time.Duration { return l.Ended.Sub(l.Opened) }

// V1State is the agent's history.
type V1State struct {
	// Registered reports whether the present connection is acknowledged.
	Connected, Registered bool
	// Upgrades counts connections, Refusals dials that were refused,
	// Registrations acknowledged ones.
	Upgrades, Refusals, Registrations int
	// Heartbeats counts those sent and Acks those of the hub that say success.
	Heartbeats, Acks int
	// Stalls counts streams aborted because nobody read, Unknown messages of no
	// known type.
	Stalls, Unknown int
	// Lives are the connections that ended, at most 4,096.
	Lives []V1Life
	// Dead is why it never dials again, nil while it does.
	Dead error
}

// StartV1 starts the agent's process.
func StartV1(opts V1Options) *V1 {
	opts = opts.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	a := &V1{
		opts: opts, ctx: ctx, stop: stop, changed: make(chan struct{}),
		asked: make(chan *V1Request, maxHistory),
		slots: newV1Slots(opts.MaxInFlight, opts.MaxPerModel, opts.Rate),
	}
	a.loops.Go(a.live)
	return a
}

// Stop ends the process without a close frame, as kill -9 does, and waits for it.
// Handlers end by themselves: their calls fail.
func (a *V1) Stop() {
	a.stop()
	a.Cut()
	a.loops.Wait()
}

// State returns the agent's history so far.
func (a *V1) State() V1State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.state
	s.Lives = append([]V1Life(nil), s.Lives...)
	return s
}

// Await waits until such returns true. It looks again at every change and at every
// message of the hub.
func (a *V1) Await(ctx context.Context, such func(V1State) bool) error {
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		s := a.State()
		if such(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("v1 agent: %w: %+v", ctx.Err(), s)
		}
	}
}

// AwaitRegistered waits until the hub has acknowledged the agent; it fails at
// once when the agent is dead.
func (a *V1) AwaitRegistered(ctx context.Context) error {
	err := a.Await(ctx, func(s V1State) bool { return s.Registered || s.Dead != nil })
	if err != nil {
		return err
	}
	return a.State().Dead
}

// Requests has the requests that no Handler takes.
func (a *V1) Requests() <-chan *V1Request { return a.asked }

// Received returns the hub's messages, oldest first, at most 4,096.
func (a *V1) Received() []V1Frame {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]V1Frame(nil), a.received...)
}

// NodeID returns the id that the agent registers with.
func (a *V1) NodeID() string { return a.opts.NodeID }

// Cut breaks the present connection without a close frame; the agent reconnects.
func (a *V1) Cut() {
	if c := a.current(); c != nil {
		c.ws.NetConn().Close()
	}
}

// Offer replaces the models and registers again on the live connection, as the
// agent does when its ready set changes.
func (a *V1) Offer(models ...string) error {
	a.mu.Lock()
	a.opts.Models = models
	a.mu.Unlock()
	c := a.current()
	if c == nil {
		return ErrClosed
	}
	return c.register()
}

// Health sends a model_health_update with one model's health.
func (a *V1) Health(model, health string) error {
	return a.Send("model_health_update", v1ID(), a.health(map[string]string{model: health}))
}

// Heartbeat sends a heartbeat now.
func (a *V1) Heartbeat() error {
	c := a.current()
	if c == nil {
		return ErrClosed
	}
	return c.heartbeat()
}

// Send sends a message of the test's own making.
func (a *V1) Send(kind, id string, payload any) error {
	c := a.current()
	if c == nil {
		return ErrClosed
	}
	return c.send(kind, id, payload, a.opts.Timing.Patience)
}

// SendRaw sends bytes as one WebSocket message of a kind (1 is text).
func (a *V1) SendRaw(kind int, message []byte) error {
	c := a.current()
	if c == nil {
		return ErrClosed
	}
	return c.push(v1Message{kind: kind, bytes: message}, a.opts.Timing.Patience)
}

// Ping sends a WebSocket ping now.
func (a *V1) Ping() error {
	c := a.current()
	if c == nil {
		return ErrClosed
	}
	return c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(a.opts.Timing.Patience))
}

func (a *V1) current() *v1Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conn
}

// change alters the state under the lock and wakes everyone who awaits it.
func (a *V1) change(f func(*V1State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.state)
	close(a.changed)
	a.changed = make(chan struct{})
}
