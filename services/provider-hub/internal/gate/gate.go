// Package gate is where agents connect. It decides about the HTTP upgrade, who may hold a
// socket, who may register and when, and how connections are closed. It has the
// goroutines of each socket. What messages say is for package dialect, and what they lead
// to for package session.
//
// The reader of a socket hands each message to the session and never waits for anyone.
// A writer starts when something is due, takes all that is due, writes it as one batch, and
// ends when nothing more is due. An agent that does not read is cut off after the write
// deadline. A goroutine of its own looks up a registration.
//
// Agents of v1 are fragile when they are refused, so the gate rather keeps them waiting.
// Registrations wait in a queue that lets a steady number through, and are tried again
// while the store is away. A refused agent is held for 30 s, and no socket is closed that
// is younger than 2 s. So sockets that are not registered are bounded by their number and
// by network. While there is room, only agents that had a session lately are refused,
// because those come back.
//
// When sockets end in large numbers, their teardown is paced, because the requests of
// others would wait behind it.
package gate

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/dialect"
	v1 "svc.internal/services/provider-hub/internal/dialect/v1"
	v2 "svc.internal/services/provider-hub/internal/dialect/v2"
	"svc.internal/services/provider-hub/internal/kinds"
	"svc.internal/services/provider-hub/internal/quota"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// Deps are what a gate works with.
type Deps struct {
	Registrar Registrar
	// Receipts takes work receipts; nil ignores them.
	Receipts session.Receipts
	Clock    clock.Clock
	Log      *slog.Logger
	Counts   *Counts
	// Kinds decide which models a session may serve; nil for all.
	Kinds *kinds.Models
}

// Counts are the figures of all connections of a hub, for its metrics.
type Counts struct {
	// Sockets counts the open sockets, registered or not.
	Sockets  atomic.Int64
	Conns    wsconn.Counts
	Sessions session.Counts
}

// Gate accepts the sockets of agents. It is an http.Handler for the paths /, /ws and
// any prefix with /ws behind it.
type Gate struct {
	cfg       Config
	registrar Registrar
	log       *slog.Logger
	counts    *Counts
	env       session.Env
	v1, v2    *dialect.Dialect
	upgrader  *wsconn.Upgrader
	pool      *wsconn.Pool
	large     *quota.Budget
	queue     *queue
	admission *admission
	teardown  teardown

	mu       sync.Mutex
	draining bool
	sockets  map[*socket]struct{}
	open     sync.WaitGroup // the sockets
}

// New returns a gate that holds sockets, and registers nobody until Accept.
func New(cfg Config, deps Deps) *Gate {
	cfg = cfg.WithDefaults()
	large := quota.NewBudget(cfg.LargeBudget)
	pool := wsconn.NewPool(large, &deps.Counts.Conns)
	return &Gate{
		cfg: cfg, registrar: deps.Registrar, log: deps.Log, counts: deps.Counts,
		env: session.Env{
			Config: cfg.Session, Registrar: deps.Registrar, Receipts: deps.Receipts, Clock: deps.Clock,
			Counts: &deps.Counts.Sessions, Held: quota.NewBudget(cfg.HeldBudget), Kinds: deps.Kinds,
		},
		v1: v1.New(cfg.V1), v2: v2.New(cfg.SessionTimeout),
		upgrader: wsconn.NewUpgrader(agentwire.Subprotocol, cfg.Session.RegisterTimeout, pool),
		pool:     pool, large: large,
		queue:     newQueue(cfg, deps.Registrar, deps.Clock),
		admission: newAdmission(cfg.MaxWaiting, deps.Clock),
		teardown:  newTeardown(),
		sockets:   map[*socket]struct{}{},
	}
}

// Env is the environment of the hub's sessions, for sessions without a socket.
func (g *Gate) Env() *session.Env { return &g.env }

// Accept begins to register agents, the waiting agents among them.
func (g *Gate) Accept() { g.queue.open() }

// Waiting is the number of sockets that are not registered.
func (g *Gate) Waiting() int { return g.admission.count() }

// socket is an agent's connection with its session. Its exported methods are the
// methods of a wsconn.Handler, for the reader.
type socket struct {
	gate    *Gate
	dialect *dialect.Dialect
	session *session.Session
	from    netip.Addr
	conn    *wsconn.Conn // nil before the handshake
	born    time.Time    // when the handshake was through

	// registered reports that the agent was registered at some time, so that the socket
	// has freed its place in the room for sockets that are not registered.
	registered atomic.Bool
	// lookUps are the goroutines that look up its credential.
	lookUps sync.WaitGroup
	// in is the message that is being read. It is kept here so that none is allocated.
	in session.Inbound
	// out is what is being written. It is kept here because each writer's stack begins small.
	out session.Outbox

	turn turn
	// writer is write, as a value that is made once.
	writer func()
	live   *wsconn.Liveness
	// rung reports that the timer of live has run.
	rung atomic.Bool
}

func newSocket(g *Gate, speaks *dialect.Dialect, from netip.Addr) *socket {
	c := &socket{gate: g, dialect: speaks, from: from}
	c.session = session.New(&g.env, speaks.Limits, c.wake, c.register)
	return c
}

// register notes that the agent is registered. It is called under the session's lock.
func (c *socket) register() {
	c.gate.admission.admitted(c.from)
	c.registered.Store(true)
}

// wake has a writer write what is due.
func (c *socket) wake() {
	if c.turn.take() {
		go c.writer()
	}
}

// ring has the writer ask about the agent's life.
func (c *socket) ring() {
	c.rung.Store(true)
	c.wake()
}

// shut ends the session where there is a reason.
func (c *socket) shut(why *session.CloseReason) {
	if why != nil {
		c.session.Shut(why)
	}
}
