// Package session is the hub's end of a provider connection in dialect v2
// (proto/svc/agent/v2): the WebSocket endpoint, the registration of an agent,
// and the request streams that share its socket.
//
// Two goroutines serve a socket. The reader hands each frame to the Session
// and never waits for anyone: answers go into the buffer of their stream,
// bounded by the stream's credit. The writer takes what is due, control before
// new requests before further body bytes, one frame of each stream in turn,
// and writes a batch with one system call. So a consumer who does not take its
// answer stalls its own stream only, and an agent that does not read is cut off
// after the write deadline.
//
// Frames are counted on each stream in both directions; a gap, a repeat, a
// frame of a stream that is not open or one that does not belong ends the
// connection with Error protocol_error. Sending beyond the granted credit
// resets the stream, and a second time ends the connection. A stream that was
// cancelled stays known until its END or until the grace is over.
//
// Bounds: a message is 64 KiB and a DATA frame 16 KiB; credit is 256 KiB a
// stream and 8 MiB a connection each way; 256 models, 32 capabilities, 4,096
// streams and 4,096 waiting control frames a session; heartbeats and pings 10 a
// second, frames of receipts 20, receipts 200. Everything that an agent calls itself or its models is cut to a
// length and to printable characters before anyone else sees it.
package session

import (
	"crypto/ed25519"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Subprotocol names the dialect in the handshake.
const Subprotocol = "svc.agent.v2"

// The codes of Error frames that close a connection or reset a stream.
const (
	CodeInvalidKey      = "invalid_api_key"
	CodeKeyRevoked      = "key_revoked"
	CodeSuspended       = "suspended"
	CodeSuperseded      = "superseded"
	CodeProtocolError   = "protocol_error"
	CodeWindowExceeded  = "window_exceeded"
	CodeRegisterTimeout = "register_timeout"
	CodeTooManyModels   = "too_many_models"
	CodeTooManySessions = "too_many_sessions"
	CodeShuttingDown    = "shutting_down"
	CodeTryLater        = "try_later"
)

// Sizes of the dialect, in bytes.
const (
	maxMessage = 64 << 10
	maxData    = 16 << 10
)

// Bounds of one session.
const (
	maxModels       = 256
	maxCapabilities = 32
	maxStreams      = 4096
	maxControl      = 4096
	// chatter bounds heartbeats, pings and empty DATA.
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
)

// Config bounds sessions in time and number. The zero value of a field stands
// for its default.
type Config struct {
	// RegisterTimeout is how long a socket may stay unregistered: 10 s.
	RegisterTimeout time.Duration
	// RefuseHold is how long a refused socket is held before it is closed, so
	// that an agent that dials at once does not spin: 2 s.
	RefuseHold time.Duration
	// HeartbeatInterval is what agents are told, 10 s; a session without one
	// for SessionTimeout, 30 s, is dead.
	HeartbeatInterval time.Duration
	SessionTimeout    time.Duration
	// PingInterval is the pause between pings, 15 s; a pong is due within
	// PongTimeout, 5 s, and two that miss it end the session.
	PingInterval time.Duration
	PongTimeout  time.Duration
	// WriteTimeout bounds one write to the socket: 10 s.
	WriteTimeout time.Duration
	// CancelGrace is how long a stream that nobody wants any more may take to
	// end before its slot is freed: 10 s.
	CancelGrace time.Duration
	// StreamWindow and ConnWindow are the credit in bytes: 256 KiB and 8 MiB.
	StreamWindow int64
	ConnWindow   int64
	// MaxSockets bounds the sockets of this hub, registered or not: 10,000.
	MaxSockets int
	// HandshakeRate and HandshakeBurst shape new sockets a second: 200 and
	// 400. A handshake waits for its turn up to HandshakeWait, 5 s.
	HandshakeRate  float64
	HandshakeBurst int
	HandshakeWait  time.Duration
	// MaxAdmissions bounds the key look-ups under way: 32. Each may take
	// AdmitTimeout, 5 s.
	MaxAdmissions int
	AdmitTimeout  time.Duration
	// ReconnectSpread is over how long agents are told to come back when the
	// hub shuts down: 20 s.
	ReconnectSpread time.Duration
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	fill(&c.RegisterTimeout, 10*time.Second)
	fill(&c.RefuseHold, 2*time.Second)
	fill(&c.HeartbeatInterval, 10*time.Second)
	fill(&c.SessionTimeout, 30*time.Second)
	fill(&c.PingInterval, 15*time.Second)
	fill(&c.PongTimeout, 5*time.Second)
	fill(&c.WriteTimeout, 10*time.Second)
	fill(&c.CancelGrace, 10*time.Second)
	fill(&c.StreamWindow, 256<<10)
	fill(&c.ConnWindow, 8<<20)
	fill(&c.MaxSockets, 10_000)
	fill(&c.HandshakeRate, 200)
	fill(&c.HandshakeBurst, 400)
	fill(&c.HandshakeWait, 5*time.Second)
	fill(&c.MaxAdmissions, 32)
	fill(&c.AdmitTimeout, 5*time.Second)
	fill(&c.ReconnectSpread, 20*time.Second)
	return c
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Identity says whose session it is. It never changes once the session has
// joined.
type Identity struct {
	ProviderID   ids.ProviderID
	ProviderName string
	KeyID        ids.KeyID
	NodeID       string
	NodeName     string
	AgentVersion string
	Region       string
	Epoch        int64
}

// Offer is one model that a session serves.
type Offer struct {
	Model string
	// ContextLength in tokens, 0 when not reported.
	ContextLength int64
	Quantization  string
	// Capacity is how many requests are taken at once.
	Capacity int
	Healthy  bool
	// InFlight is how many are under way.
	InFlight int
}

// View is a session as the rest of the fleet may know it.
type View struct {
	Identity
	Active          bool
	Draining        bool
	Offers          []Offer
	Capabilities    []string
	MaxRequestBytes int64
}

// Closing says why a connection ends.
type Closing struct {
	Code    string
	Message string
	// ReconnectAfter is what the agent is told; 0 leaves it to the agent.
	ReconnectAfter time.Duration
	// Hold is how long the socket stays open behind the Error frame.
	Hold time.Duration
}

// Error is the code with its message.
func (c *Closing) Error() string { return c.Code + ": " + c.Message }

// Closings that are held only for the agent to read why.
const lingerHold = 500 * time.Millisecond

func closing(code, message string) *Closing {
	return &Closing{Code: code, Message: message, Hold: lingerHold}
}

func protocolError(message string) *Closing { return closing(CodeProtocolError, message) }

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
	cfg       Config
	registrar Registrar
	clock     clock.Clock
	counts    *Counts
	wake      chan struct{} // tells the writer that there is something to do
	done      chan struct{} // closed when the socket is gone
	admission sync.WaitGroup
	// joined is set once, before Join. The registrar reads it under its own
	// lock, which a session takes under its own, so it needs none.
	joined atomic.Pointer[Identity]

	mu       sync.Mutex
	phase    phase
	identity Identity // as far as it is known
	active   bool
	draining bool
	maxBody  int64
	caps     []string
	models   map[string]*model
	order    []string // models in the order of the agent's list
	streams  map[uint32]*Stream
	last     uint32 // the last stream number given out

	seqIn, seqOut uint32 // of stream 0
	recvCredit    int64  // what the agent may still send
	recvOwed      int64  // taken and not yet granted again
	sendCredit    int64  // what may still be sent
	violations    int    // streams reset for exceeding their credit, receipts forged
	chatter       bucket

	receipts      Receipts
	receiptKey    ed25519.PublicKey
	receiptFrames bucket
	receiptItems  bucket

	control     []*agentv2.Frame
	interactive []*Stream // OPEN is due
	bulk        []*Stream // body is due and the stream has credit
	closing     *Closing
	pong        []byte // answer to the last ping that was not answered
	pongDue     bool
	pongSeen    bool // the agent answered our ping
	probe       bool // somebody wants a ping now

	heartbeat *time.Timer // ends a session that fell silent
	deadline  *time.Timer // ends a socket that does not register
}

// model is an offer with its slots.
type model struct {
	offer    Offer
	inFlight int
}

func newSession(cfg Config, registrar Registrar, c clock.Clock, counts *Counts) *Session {
	return &Session{
		cfg: cfg, registrar: registrar, clock: c, counts: counts,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		models: map[string]*model{}, streams: map[uint32]*Stream{},
		recvCredit: cfg.ConnWindow, sendCredit: cfg.ConnWindow,
		chatter: newBucket(chatterRate, chatterBurst, c.Now()), receiptFrames: newBucket(receiptRate, receiptBurst, c.Now()),
		receiptItems: newBucket(receiptsRate, receiptsBurst, c.Now()),
	}
}

// Identity says whose session it is; it is empty before Join.
func (s *Session) Identity() Identity {
	if who := s.joined.Load(); who != nil {
		return *who
	}
	return Identity{}
}

// View describes the session as it is now; ok is false when it is not live.
func (s *Session) View() (v View, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v = View{
		Identity: s.identity, Active: s.active, Draining: s.draining,
		Capabilities: s.caps, MaxRequestBytes: s.maxBody,
		Offers: make([]Offer, 0, len(s.order)),
	}
	for _, id := range s.order {
		m := s.models[id]
		offer := m.offer
		offer.InFlight = m.inFlight
		v.Offers = append(v.Offers, offer)
	}
	return v, s.phase == phaseLive
}

// Streams is how many requests are under way.
func (s *Session) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// SetActive says whether the provider may serve consumers; it reports whether
// that is a change. Requests under way go on.
func (s *Session) SetActive(active bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.active != active
	s.active = active
	return changed
}

// Drain tells the agent that no new requests follow, and when to dial again.
func (s *Session) Drain(reconnectAfter time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseLive {
		return
	}
	s.draining = true
	s.push(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{ReconnectAfterMs: reconnectAfter.Milliseconds()}}})
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
	s.closing = why
	s.control, s.interactive, s.bulk = nil, nil, nil
	s.failStreams()
	s.stopTimers()
	s.signal()
}

// end notes that the socket is gone and takes the session off the registrar.
func (s *Session) end() {
	s.mu.Lock()
	s.phase = phaseEnded
	s.failStreams()
	s.stopTimers()
	s.mu.Unlock()
	close(s.done)
	// A key look-up under way may still make the session join.
	s.admission.Wait()
	s.registrar.Leave(s)
}

func (s *Session) stopTimers() {
	if s.heartbeat != nil {
		s.heartbeat.Stop()
	}
	if s.deadline != nil {
		s.deadline.Stop()
	}
}

func (s *Session) failStreams() {
	for id, st := range s.streams {
		st.fail(ErrLost)
		s.forget(id, st)
	}
}

// signal wakes the writer.
func (s *Session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
