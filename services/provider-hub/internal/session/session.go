// Package session is what the hub knows of one connected agent and what the hub asks of
// the agent: who the agent is, which models it serves, which slots are taken, and what
// became of each request.
//
// A session knows no wire. Each message of the agent comes as an Inbound, and the
// messages for the agent go into an Outbox. A dialect decodes a message into an Inbound
// and encodes the messages of an Outbox. Package gate owns the socket, decides who may
// register and when, and closes the socket.
//
// The states of a session are in state.go. Agents speak by one of two sets of rules
// (Limits.Strict). strict.go has the rules of dialect v2, where frames are numbered and
// bodies and answers have credit. lenient.go has the rules of dialect v1, which agents
// speak that existed before this hub. Streams of both look alike to their callers:
// answers are the bytes of an OpenAI endpoint.
//
// Two goroutines of the gate serve a socket. The reader hands each message to Receive,
// which never waits for anyone: answers go into the buffer of their stream, which is
// bounded. The writer takes the due messages with Next: control messages before new
// requests, and new requests before further pieces of bodies. So a consumer who does not
// take its answer stalls or loses its own stream only.
//
// By the strict rules the connection ends with protocol_error at a gap or a repeat in the
// numbers, at a frame of a stream or a result of a challenge that is not open, and at a
// frame that does not belong.
// Sending beyond the granted credit resets the stream, and the second violation ends the
// connection. A stream that was cancelled keeps its slot until the agent ends it or, once
// the stream is closed, until the grace is over. By the lenient rules nothing can be
// cancelled: an answer that nobody wants any more is passed over, and its slot stays
// taken until the agent has ended it, or until Limits.Total and the grace are over.
//
// Bounds: a strict stream has 256 KiB of credit each way and a connection 8 MiB. A
// lenient stream holds at most 1 MiB that was not taken, 1,024 chunks, or 256 chunks of
// which nobody took any for a second, and a connection holds 8 MiB. All streams of a hub
// together have Env.Held, of which a provider has an eighth. A session has at most 256
// models, Limits.Streams requests, of which 2 are challenges, and 4,096 control messages
// that wait. An agent may send 10 heartbeats, pings and the like a second, 20 frames of
// receipts and 200 receipts. By the strict rules a frame other than DATA counts with the
// heartbeats where no request or body earned it. By the lenient rules an answer to nobody
// counts with the heartbeats. Answers to requests of an earlier connection do not count,
// because agents go on sending them: they are passed over for 5 minutes, up to 64 MiB.
// Every text that an agent says of itself or its models is cut to a length and to
// printable characters before anyone else sees it.
package session

import (
	"crypto/ed25519"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/kinds"
	"svc.internal/services/provider-hub/internal/quota"
)

// Errors of streams.
var (
	// ErrGone means that the session takes no new streams: it is not live, its
	// socket is closed, or its provider is not active and the request is no challenge.
	ErrGone = errors.New("session is gone")
	// ErrNotOffered means that the session does not serve the model.
	ErrNotOffered = errors.New("session does not serve this model")
	// ErrBusy means that every slot of the model is taken.
	ErrBusy = errors.New("session has no free slot")
	// ErrLost means that the connection ended under an open stream.
	ErrLost = errors.New("connection to the provider was lost")
	// ErrReset means that the stream was reset: by the hub, because the agent sent
	// beyond its credit; by the agent; or by Cancel, before the agent was sent the
	// request.
	ErrReset = errors.New("stream was reset")
	// ErrBehind means that so much of the answer was not taken that the rest is
	// given up, because the agent's socket must not wait for one consumer.
	ErrBehind = errors.New("the answer was not taken in time")
	// ErrNoRoom means that the hub had no room for more of the answer.
	ErrNoRoom = errors.New("there was no room for the answer")
	// ErrTooLarge means that the request does not fit into a message of the agent's
	// dialect. ErrNotSendable means that the request cannot be sent, because its body is
	// not JSON or not text.
	ErrTooLarge    = errors.New("request is too large for this agent")
	ErrNotSendable = errors.New("request is not valid JSON")
)

// Registrar keeps the sessions of a hub that have joined.
type Registrar interface {
	// Join adds a session that has its identity. It refuses the session where the
	// node has a newer session, or where the provider has too many. It shuts an older
	// session of the node that does not drain, and then warning tells the agent so.
	Join(s *Session) (warning string, why *CloseReason)
	// Touch notes that the session's view has changed. It may be called under the
	// session's lock.
	Touch(s *Session)
	// Warmed takes the outcome of a warm-up. It is called under the session's lock.
	Warmed(s *Session, w Warmed)
}

// Receipts takes the work receipts of agents.
type Receipts interface {
	// Receive takes work receipts of a session, as many as there is room for. The agent
	// sends the receipts again that are not acknowledged. It is called under the
	// session's lock and must not block.
	Receive(s *Session, all []Receipt)
}

// Env is the environment that the sessions of a hub share.
type Env struct {
	Config    Config
	Registrar Registrar
	// Receipts takes work receipts; nil passes them over.
	Receipts Receipts
	Clock    clock.Clock
	Counts   *Counts
	// Held bounds the bytes of answers that the streams of all sessions hold.
	Held *quota.Budget
	// Kinds decide which models a session may serve; nil for all.
	Kinds *kinds.Models
}

// Session is one connection. It is safe for concurrent use.
type Session struct {
	env        *Env
	limits     Limits
	wake       func() // tells the writer that there is something to do
	registered func()

	done chan struct{} // closed when the session of a closed socket has ended
	// joined is set once, before Join. It is atomic, because the registrar reads it under
	// the registrar's lock. A session takes that lock under the session's lock, so the
	// registrar must not take the session's lock there.
	joined atomic.Pointer[Identity]
	// state is written under the lock, by moveLocked alone.
	state atomic.Uint32

	mu       sync.Mutex
	identity Identity // as far as it is known
	// credential waits to be looked up; nil when no credential waits.
	credential *Credential
	// refused are the models of the registration that are not taken, with the reason.
	refused map[string]string
	// reply is the name under which the registration is answered (not strict).
	reply      string
	receiptKey ed25519.PublicKey
	active     bool
	// status and machines are facts of the provider, for its agent: the name of the status, and
	// how many of its machines are connected, 0 where nobody counted them.
	status   string
	machines int
	// probation and uptime30d are facts of the provider, for routers.
	probation bool
	uptime30d *float64
	hardware  *gpu.Report
	load      load
	maxBody   int64
	caps      []string

	models map[string]*model
	order  []string          // models in the order of the agent's list
	former map[string]*model // models off the list, with slots taken or warmed lately
	// barred are the models of the last list that the provider may not serve because of their kind,
	// with the reason.
	barred map[string]string
	kinds  uint64 // the version of Env.Kinds by which the offers were judged
	// warmups are the models of the warm-ups that were not answered, by the name of the
	// warm-up. asked counts the names.
	warmups map[string]string
	asked   uint64

	streams map[uint32]*Stream
	names   map[string]*Stream   // streams by the name that answers are correlated by
	holders map[*Stream]struct{} // streams whose bytes count as held
	last    uint32               // the last stream number given out
	held    int64                // bytes that wait to be taken, of streams in holders

	// The messages that may come without having been asked for.
	chatter       quota.Bucket
	receiptFrames quota.Bucket
	receiptItems  quota.Bucket
	earned        earned
	strays        strays
	violations    int // streams reset for exceeding their credit, receipts forged

	// challenges counts the challenges that hold slots. fingerprint is the fingerprint
	// that a strict agent has not replied to; nil for none. unflushed are the challenges
	// whose last byte the writer has taken and perhaps not written.
	challenges  int
	fingerprint *Stream
	unflushed   []*Stream
	roundTrip   time.Duration // the shortest that pings measured; 0 before

	// Strict: the connection's frames and credit.
	seqIn, seqOut agentwire.Sequence
	credit        agentwire.Credit // the bytes that may still be sent
	window        agentwire.Window // the bytes that the agent may still send

	// The messages that wait for the writer.
	control  []Outbound
	requests []*Stream // streams whose request the agent is to be sent
	bodies   []*Stream // streams that have a piece to send and credit
	pong     []byte    // answer to the last ping that was not answered
	pongDue  bool
	pongSeen bool // the agent answered our ping
	probe    bool // somebody wants a ping now

	// socketClosed reports that the socket is closed. The session may still be
	// waiting for its turn to end; it accepts no requests.
	socketClosed bool
	// closing is why the session closes; nil while it stays. leaving is why a session
	// that finishes is to close when its last request has ended; nil for other sessions.
	closing *CloseReason
	leaving *CloseReason

	heartbeat *time.Timer // ends a session that fell silent
	deadline  *time.Timer // ends a socket that does not register
	// freeing runs after routers were told of a freed slot. freedAgain reports that
	// another slot was freed since.
	freeing    *time.Timer
	freedAgain bool
}

// load is the load of an agent's engines, by the agent's own count.
type load struct{ active, queued int }

// model is an offer with its slots.
type model struct {
	offer    Offer
	inFlight int
	warmedAt time.Time // when the agent was last asked to have it loaded
}

// Stream is one request on a session. Take and Release are for one goroutine.
type Stream struct {
	session *Session
	id      uint32
	// name is the name that answers are correlated by (not strict).
	name  string
	model *model
	ready chan struct{}
	// named is the engine's name for the model, as the agent had said it when the stream
	// began; empty for none.
	named string
	// request does not change. Its Body is nil, because the body is in body.
	request Request

	// All below is guarded by the session's mutex.
	body      []byte // the bytes that were not sent yet
	opened    bool   // the agent was sent the request
	sentAt    time.Time
	finished  bool // the whole body was sent, or no more of it will be sent
	queued    bool // the stream stands in the ring of bodies
	in, spare []byte
	held      int64 // bytes of in that count as the session's
	apart     int64 // bytes of in that count as the hub's alone
	ended     *End
	err       error
	released  bool // nobody takes the answer any more
	cancelled bool // the agent was asked to stop, where its dialect can ask
	grace     *time.Timer

	// Strict: the stream's frames and credit.
	seqIn, seqOut agentwire.Sequence
	credit        agentwire.Credit
	window        agentwire.Window

	// Not strict: how many chunks wait to be taken, since when they wait, and whether
	// the end mark was seen.
	chunks int
	since  time.Time
	done   bool

	// timing is nil but for challenges.
	timing *timing
}

// New returns a session of an agent that is not registered. wake is called under the session's
// lock when Next has something to send. registered is called once, under the session's lock, when
// the agent is registered and before the answer is queued.
func New(env *Env, limits Limits, wake, registered func()) *Session {
	now, cfg := env.Clock.Now(), &env.Config
	s := &Session{
		env: env, limits: limits, wake: wake, registered: registered, done: make(chan struct{}),
		models: map[string]*model{}, former: map[string]*model{},
		streams: map[uint32]*Stream{}, holders: map[*Stream]struct{}{},
		chatter:       quota.NewBucket(chatterRate, chatterBurst, now),
		receiptFrames: quota.NewBucket(receiptRate, receiptBurst, now),
		receiptItems:  quota.NewBucket(receiptsRate, receiptsBurst, now),
		credit:        agentwire.Credit(cfg.ConnWindow), window: agentwire.NewWindow(cfg.ConnWindow),
	}
	s.state.Store(uint32(Connected))
	if !limits.Strict {
		s.names, s.warmups, s.strays = map[string]*Stream{}, map[string]string{}, newStrays(limits.Streams)
	}
	return s
}

// State returns the session's state. It takes no lock.
func (s *Session) State() State { return State(s.state.Load()) }

// Streams is how many requests are under way.
func (s *Session) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// SetStanding sets whether the provider may serve consumers, and what routers are told of
// the provider. It reports whether active or probation has changed, because routers
// should hear of that at once. Requests under way go on.
func (s *Session) SetStanding(active, probation bool, uptime30d *float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.active != active || s.probation != probation
	s.active, s.probation, s.uptime30d = active, probation, uptime30d
	return changed
}

// Tell sets the status and the machines that answer heartbeats. 0 machines leave the number as
// it is, because nobody counted them.
func (s *Session) Tell(status string, machines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	if machines > 0 {
		s.machines = machines
	}
}

// Done returns a channel that is closed when the socket is closed and the session has
// ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// failLocked fails a stream that has neither ended nor failed.
func (st *Stream) failLocked(err error) {
	if st.ended == nil && st.err == nil {
		st.err = err
	}
	st.timing.over(st.session.env.Clock.Now())
	st.signal()
}

// signal wakes the goroutine that takes the answer.
func (st *Stream) signal() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}
