// Package session is what the hub knows of one connected agent and what it asks of
// it: who the agent is, which models it serves, which slots are taken, and what
// became of each request.
//
// A session knows no wire. It is given what an agent says as an Inbound and has what
// is to be said in an Outbox; a dialect makes the one out of a message and a message
// out of the other. Package gate owns the socket, decides who may register and
// when, and closes.
//
// Which state a session can be in is written in state.go. Agents speak by one of two
// sets of rules (Limits.Strict): strict.go has that of dialect v2, whose frames are
// counted and have credit in both directions, and lenient.go that of dialect v1, which
// agents speak that existed before this hub. To whoever opens a stream both look alike:
// answers are the bytes of an OpenAI endpoint.
//
// Two goroutines of the gate serve a socket. The reader hands each message to Receive,
// which never waits for anyone: answers go into the buffer of their stream, which is
// bounded. The writer takes with Next what is due, control before new requests before
// further body bytes. So a consumer who does not take its answer stalls or loses its
// own stream only.
//
// By the strict rules a gap, a repeat, a frame of a stream that is not open or one
// that does not belong ends the connection with protocol_error. Sending beyond the
// granted credit resets the stream, and a second time ends the connection. A stream
// that was cancelled stays known until its END or until the grace is over. By the
// lenient rules nothing can be cancelled: what nobody wants any more is passed over,
// and its slot stays taken until the agent has ended it, at most Limits.Total.
//
// Bounds: a strict stream has 256 KiB of credit each way and a connection 8 MiB; a
// lenient stream holds at most 1 MiB that was not taken, 1,024 chunks, or 256 that
// nobody took for a second, and a connection 8 MiB; all streams of a hub together
// have Env.Held, of which a provider has an eighth. 256 models, Limits.Streams and
// 4,096 waiting control messages a session; heartbeats, pings and the like 10 a
// second, frames of receipts 20, receipts 200. By the strict rules every frame counts
// with these that is not DATA and that no request or body earned. By the lenient
// rules an answer to nobody counts with these, too. Answers to requests of an earlier
// connection do not: agents go on sending them, and they are passed over for 5 minutes,
// up to 64 MiB. Everything that an agent calls itself or its models is cut to a
// length and to printable characters before anyone else sees it.
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
	"svc.internal/services/provider-hub/internal/quota"
)

// Errors of streams.
var (
	// ErrGone means that the session takes no new streams: it ended, drains,
	// or its provider is not active.
	ErrGone = errors.New("session is gone")
	// ErrNotOffered means that the session does not serve the model.
	ErrNotOffered = errors.New("session does not serve this model")
	// ErrBusy means that every slot of the model is taken.
	ErrBusy = errors.New("session has no free slot")
	// ErrLost means that the connection ended under an open stream.
	ErrLost = errors.New("connection to the provider was lost")
	// ErrReset means that the stream was reset for sending beyond its credit,
	// or by the agent itself.
	ErrReset = errors.New("stream was reset")
	// ErrBehind means that so much of the answer was not taken that the rest
	// is given up: the agent's socket must not wait for one consumer.
	ErrBehind = errors.New("the answer was not taken in time")
	// ErrNoRoom means that the hub had no room for more of an answer.
	ErrNoRoom = errors.New("there was no room for the answer")
	// ErrTooLarge means that the request does not fit into a message of the agent's
	// dialect, and ErrNotSendable that its body cannot be sent, because it is not JSON or
	// not text.
	ErrTooLarge    = errors.New("request is too large for this agent")
	ErrNotSendable = errors.New("request is not valid JSON")
)

// Registrar keeps the sessions that stand.
type Registrar interface {
	// Join adds a session that has its identity, unless a newer one of the
	// node is there or the provider has too many; it shuts an older one, and
	// warning tells the new one so.
	Join(s *Session) (warning string, why *CloseReason)
	// Touch says that the session's view has changed. It is called under the
	// session's lock.
	Touch(s *Session)
	// Warmed tells what became of a warm-up. It is called under the session's
	// lock.
	Warmed(s *Session, w Warmed)
}

// Receipts takes what agents say that they served.
type Receipts interface {
	// Receive takes receipts of a session, or as many as there is room for;
	// the agent sends again what is not acknowledged. It is called under the
	// session's lock and must not block.
	Receive(s *Session, all []Receipt)
}

// Env is what the sessions of a hub share.
type Env struct {
	Config    Config
	Registrar Registrar
	// Receipts takes work receipts; nil passes them over.
	Receipts Receipts
	Clock    clock.Clock
	Counts   *Counts
	// Held bounds what the streams of all sessions hold that was not taken.
	Held *quota.Budget
}

// Session is one connection. It is safe for concurrent use.
type Session struct {
	env        *Env
	limits     Limits
	registered func()

	wake chan struct{} // tells the writer that there is something to do
	done chan struct{} // closed when the socket is closed
	// joined is set once, before Join. The registrar reads it under its own
	// lock, which a session takes under its own, so it needs none.
	joined atomic.Pointer[Identity]
	// state is written under the lock, by moveLocked alone.
	state atomic.Uint32

	mu       sync.Mutex
	identity Identity // as far as it is known
	// credential waits to be looked up; nil when none does.
	credential *Credential
	// refused are the models of the registration that are not taken.
	refused map[string]string
	// reply is what the registration is answered under.
	reply      string
	receiptKey ed25519.PublicKey
	active     bool
	// probation and uptime30d are the provider's, for routers.
	probation bool
	uptime30d *float64
	hardware  *gpu.Report
	load      load
	maxBody   int64
	caps      []string

	models map[string]*model
	order  []string          // models in the order of the agent's list
	former map[string]*model // left the list, with slots taken or warmed lately
	// warmups are the models of warm-ups that are not answered, by the name that
	// they were asked under, and asked counts the names.
	warmups map[string]string
	asked   uint64

	streams map[uint32]*Stream
	names   map[string]*Stream   // streams by the name that answers are correlated by
	holders map[*Stream]struct{} // have bytes that count as held
	last    uint32               // the last stream number given out
	held    int64                // bytes of streamed answers that were not taken

	// What may come without having been asked for.
	chatter       quota.Bucket
	receiptFrames quota.Bucket
	receiptItems  quota.Bucket
	earned        earned
	strays        strays
	violations    int // streams reset for exceeding their credit, receipts forged

	// The connection's frames and credit.
	seqIn, seqOut agentwire.Sequence
	credit        agentwire.Credit // what may still be sent
	window        agentwire.Window // what the agent may still send

	// What waits for the writer.
	control  []Outbound
	requests []*Stream // the agent is to be told
	bodies   []*Stream // a piece is due, and the stream has credit
	pong     []byte    // answer to the last ping that was not answered
	pongDue  bool
	pongSeen bool // the agent answered our ping
	probe    bool // somebody wants a ping now

	// socketClosed reports that the socket is closed. The session may still be
	// waiting for its turn to end; it accepts no requests.
	socketClosed bool
	// closing is why the session closes, and leaving why it does once its last
	// request has ended; nil while it stays.
	closing *CloseReason
	leaving *CloseReason

	heartbeat *time.Timer // ends a session that fell silent
	deadline  *time.Timer // ends a socket that does not register
	// freeing runs after routers were told of a freed slot, and freedAgain notes
	// that another was freed since.
	freeing    *time.Timer
	freedAgain bool
}

// load is what the engines of an agent are at, by its own count.
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
	// name is what answers are correlated by (not strict).
	name  string
	model *model
	ready chan struct{}
	// named is what the engine was said to call the model when the stream began.
	named string
	// request does not change; its body stands apart.
	request Request

	// All below is guarded by the session's mutex.
	body      []byte // what was not sent yet
	opened    bool   // the agent was told
	sentAt    time.Time
	finished  bool // the whole body was sent, or nothing more will be
	queued    bool // the stream stands in the ring of bodies
	in, spare []byte
	held      int64 // bytes of in that count as the session's
	ended     *End
	err       error
	released  bool // nobody takes the answer any more
	cancelled bool // the agent was asked to stop, or would be if it could
	grace     *time.Timer

	// Strict: the stream's frames and credit.
	seqIn, seqOut agentwire.Sequence
	credit        agentwire.Credit
	window        agentwire.Window

	// Not strict: the chunks that wait to be taken, since when, and whether the
	// end mark was seen.
	chunks int
	since  time.Time
	done   bool
}

// New returns a session of an agent that is not registered. registered is called
// once, under the session's lock, when it is, before the answer is queued.
func New(env *Env, limits Limits, registered func()) *Session {
	now, cfg := env.Clock.Now(), &env.Config
	s := &Session{
		env: env, limits: limits, registered: registered, wake: make(chan struct{}, 1), done: make(chan struct{}),
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

// State is where the session stands. It takes no lock.
func (s *Session) State() State { return State(s.state.Load()) }

// Streams is how many requests are under way.
func (s *Session) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// SetStanding says whether the provider may serve consumers and what routers
// are told of it; it reports whether that is a change that they should hear of
// at once. Requests under way go on.
func (s *Session) SetStanding(active, probation bool, uptime30d *float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.active != active || s.probation != probation
	s.active, s.probation, s.uptime30d = active, probation, uptime30d
	return changed
}

// Wake is signalled when Next has something to send.
func (s *Session) Wake() <-chan struct{} { return s.wake }

// Done is closed when the socket is closed and the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// signal wakes the writer.
func (s *Session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// failLocked fails a stream that has neither ended nor failed.
func (st *Stream) failLocked(err error) {
	if st.ended == nil && st.err == nil {
		st.err = err
	}
	st.signal()
}

// signal wakes whoever takes the answer.
func (st *Stream) signal() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}
