// Package session is the hub's end of a provider connection: the WebSocket
// endpoint, the registration of an agent, and the request streams that share
// its socket.
//
// One engine serves two dialects. Session knows who an agent is, which models it
// serves, which slots are taken, and what became of each stream; a dialect knows
// how frames are read and written. Dialect v2 (proto/svc/agent/v2) is binary,
// counts its frames and has credit in both directions; dialect v1 is JSON, as
// agents speak it that were there before this hub. To whoever opens a stream
// both look alike: answers are the bytes of an OpenAI endpoint.
//
// Two goroutines serve a socket. The reader hands each message to the dialect
// and never waits for anyone: answers go into the buffer of their stream, which
// is bounded. The writer takes what is due, control before new requests before
// further body bytes, and writes a batch with one system call. So a consumer who
// does not take its answer stalls or loses its own stream only, and an agent
// that does not read is cut off after the write deadline.
//
// In v2, frames are counted on each stream in both directions; a gap, a repeat,
// a frame of a stream that is not open or one that does not belong ends the
// connection with Error protocol_error. Sending beyond the granted credit
// resets the stream, and a second time ends the connection. A stream that was
// cancelled stays known until its END or until the grace is over. In v1 nothing
// can be cancelled: what nobody wants any more is passed over, and its slot stays
// taken until the agent has ended it, at most 300 s.
//
// Agents of v1 are fragile when they are refused, so that they are rather kept
// waiting: registrations stand in a queue that lets a steady number through, and
// are tried again while the store is away; a refused one is held for 30 s, and no
// socket is closed that is younger than 2 s.
//
// Bounds: a message is 64 KiB before registration, in v1 128 KiB; then 64 KiB in
// v2, with 16 KiB of DATA, and 16 MiB in v1, or 1 MiB while nothing was asked.
// Those of more than 64 KiB share a budget of 256 MiB over all sockets, of which
// a provider has an eighth. A v2 stream has 256 KiB of credit each way and a
// connection 8 MiB; a v1 stream holds at most 1 MiB that was not taken, 1,024
// chunks, or 256 that nobody took for a second, and a connection 8 MiB; all streams
// of a hub together 1 GiB, of which a provider has an eighth. 256 models, 32
// capabilities, 4,096 streams (50 in v1) and 4,096 waiting control frames a
// session; heartbeats, pings and the like 10 a second, frames of receipts 20,
// receipts 200. Of v2 every frame counts with these that is not DATA and that no
// request or body earned. Of v1 answers to nobody count with them, too, but for
// those of requests of an earlier connection, which agents go on sending: they are
// passed over for 5 minutes, up to 64 MiB. Everything that an agent calls itself or its models is cut to a
// length and to printable characters before anyone else sees it.
package session

import (
	"crypto/ed25519"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/services/provider-hub/internal/gpu"
)

// Subprotocol names dialect v2 in the handshake; without one it is v1.
const Subprotocol = "svc.agent.v2"

// Bounds of one session.
const (
	maxModels       = 256
	maxCapabilities = 32
	maxControl      = 4096
	// chatter bounds heartbeats, pings, empty DATA and whatever else an agent
	// sends without having been asked.
	chatterRate  = 10
	chatterBurst = 100
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
	// ErrTooLarge means that the request does not fit into a frame of the agent's
	// dialect, and ErrNotSendable that its body is none that could be sent.
	ErrTooLarge    = errors.New("request is too large for this agent")
	ErrNotSendable = errors.New("request is not valid JSON")
)

// phase is where a session stands.
type phase uint8

const (
	phaseNew       phase = iota // awaits Register
	phaseAdmitting              // the key is being looked up
	phaseLive                   // registered
	phaseClosing                // an Error is on its way; frames have no effect
	phaseEnded                  // the socket is closed
)

// Session is one connection. It is safe for concurrent use.
type Session struct {
	house *house
	cfg   Config
	terms terms
	wire  dialect
	born  time.Time // when the handshake was through
	from  netip.Addr

	wake      chan struct{} // tells the writer that there is something to do
	done      chan struct{} // closed when the socket is gone
	admission sync.WaitGroup
	// joined is set once, before Join. The registrar reads it under its own
	// lock, which a session takes under its own, so it needs none.
	joined atomic.Pointer[Identity]
	// most is how many bytes a message may have.
	most atomic.Int64
	// gone tells that the socket is, which no request can use any more, although
	// the session may wait for its turn to leave.
	gone bool
	// deaf tells that it closes: messages have no effect any more.
	deaf atomic.Bool

	mu       sync.Mutex
	phase    phase
	identity Identity // as far as it is known
	active   bool
	// probation and uptime30d are the provider's, for routers.
	probation bool
	uptime30d *float64
	hardware  *gpu.Report
	load      load
	draining  bool
	admitted  bool // it was live at some time
	maxBody   int64
	caps      []string
	models    map[string]*model
	order     []string // models in the order of the agent's list
	streams   map[uint32]*Stream
	former    map[string]*model    // left the list, with slots taken or warmed lately
	holders   map[*Stream]struct{} // have bytes that count as held
	last      uint32               // the last stream number given out
	held      int64                // bytes of streamed answers that were not taken
	chatter   bucket

	violations    int // streams reset for exceeding their credit, receipts forged
	receiptKey    ed25519.PublicKey
	receiptFrames bucket
	receiptItems  bucket

	closing *Closing
	// leaving is why the session closes once its last request has ended; nil while
	// it stays.
	leaving  *Closing
	pong     []byte // answer to the last ping that was not answered
	pongDue  bool
	pongSeen bool // the agent answered our ping
	probe    bool // somebody wants a ping now

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

// newSession returns a session that speaks the dialect that begin makes.
func newSession(h *house, begin func(*Session) (dialect, terms), from netip.Addr) *Session {
	now := h.clock.Now()
	s := &Session{
		house: h, cfg: h.cfg, from: from,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		models: map[string]*model{}, streams: map[uint32]*Stream{}, former: map[string]*model{}, holders: map[*Stream]struct{}{},
		chatter: newBucket(chatterRate, chatterBurst, now), receiptFrames: newBucket(receiptRate, receiptBurst, now),
		receiptItems: newBucket(receiptsRate, receiptsBurst, now),
	}
	s.wire, s.terms = begin(s)
	s.most.Store(s.terms.anonymous)
	return s
}

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

// wasLive reports whether it was registered at some time.
func (s *Session) wasLive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admitted
}

// Drain takes no new requests, and says so to an agent that can be told, and
// when to dial again.
func (s *Session) Drain(reconnectAfter time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase >= phaseClosing {
		return
	}
	s.draining = true
	s.wire.drain(reconnectAfter)
}

// Finish takes no new requests, lets those under way end, and then ends the
// session as Shut does. Only the first call counts.
func (s *Session) Finish(why *Closing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase != phaseLive:
		s.shut(why)
	case s.leaving == nil:
		s.draining, s.leaving = true, why
		s.finished()
	}
}

// finished ends a session that leaves once nothing is under way. Needs the mutex.
func (s *Session) finished() {
	if s.leaving != nil && len(s.streams) == 0 {
		s.shut(s.leaving)
	}
}

// Shut ends the session: its requests fail at once, frames that still arrive
// have no effect, and the agent is told why before the socket is closed. Only
// the first call counts.
func (s *Session) Shut(why *Closing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut(why)
}

// shut needs the mutex.
func (s *Session) shut(why *Closing) {
	if s.phase >= phaseClosing {
		return
	}
	s.phase = phaseClosing
	s.deaf.Store(true)
	s.closing = why
	s.wire.clear()
	s.failStreams()
	s.stopTimers()
	s.signal()
}

// end notes that the socket is gone and takes the session off the registrar.
// Its streams fail at once, and nobody opens another.
func (s *Session) end() {
	s.mu.Lock()
	s.gone = true
	busy := len(s.streams) > 0
	s.mu.Unlock()
	var admitted bool
	stop := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.phase = phaseEnded
		s.failStreams()
		s.stopTimers()
		admitted = s.admitted
		close(s.done)
	}
	if busy {
		stop()
	} else {
		s.house.exit.pass(stop)
	}
	// A key look-up under way may still make the session join.
	s.admission.Wait()
	s.house.exit.pass(func() {
		s.house.registrar.Leave(s)
		s.house.door.leave(s.from, admitted)
	})
}

func (s *Session) stopTimers() {
	if s.heartbeat != nil {
		s.heartbeat.Stop()
	}
	if s.deadline != nil {
		s.deadline.Stop()
	}
	if s.freeing != nil {
		s.freeing.Stop()
	}
}

func (s *Session) failStreams() {
	for _, st := range s.streams {
		st.fail(ErrLost)
		s.forget(st)
	}
}

// signal wakes the writer.
func (s *Session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
