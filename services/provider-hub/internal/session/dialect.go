package session

import (
	"time"

	"svc.internal/pkg/clock"
)

// dialect is how the frames of one connection are read and written. Its methods
// need the session's mutex, but for receive and check.
type dialect interface {
	// receive takes one message and the mutex. It never waits. What it returns
	// ends the connection. The message may be reused afterwards.
	receive(msg []byte) *Closing
	// discarded hears the beginning of a message that there was no room for, and
	// its size in bytes. It takes the mutex, too, and what it returns ends the
	// connection.
	discarded(head []byte, size int64) *Closing
	// check refuses a request that no frame can carry. It must not look at
	// what the mutex guards.
	check(r *Request) error
	// open makes the stream of a request and queues it for the writer.
	open(id uint32, r Request) *Stream
	// passed hears that n bytes of an answer were passed on or dropped.
	passed(st *Stream, n int64)
	// cancel asks the agent to give a request up, if it can be asked.
	cancel(st *Stream)
	// slot is how long a request that nobody wants may still take to end.
	slot(st *Stream) time.Duration
	// forget hears that a stream is open no more.
	forget(st *Stream)
	// registered answers the registration, once the session is live.
	registered(g Grant, refused map[string]string)
	// drain says that no new requests follow.
	drain(reconnectAfter time.Duration)
	// warmUp asks for a model to be loaded.
	warmUp(model string)
	// fill takes what is due into the outbox.
	fill(o *outbox)
	// farewell says why the connection ends, how long the socket is held behind
	// that, and the status of the close frame that follows.
	farewell(o *outbox, why *Closing)
	// clear drops all that waits for the writer.
	clear()
}

// terms are what differs between dialects and is no frame.
type terms struct {
	name string
	// opcode is that of its messages.
	opcode byte
	// anonymous and registered bound a message, in bytes.
	anonymous, registered int64
	// news bounds a message of a session that nothing was asked of.
	news int64
	// streams bounds the requests at once, and capacity is what routers know of
	// that; 0 for nothing.
	streams, capacity int
	// silence is how long an agent may be without a heartbeat.
	silence time.Duration
	// patience is how long a registration is tried again.
	patience time.Duration
	// minAge is the age below which no socket is closed.
	minAge time.Duration
	// total bounds a whole answer; 0 for no bound.
	total time.Duration
	// lasting tells that requests cannot be cancelled, so that slots stay taken.
	lasting bool
	// warmups tells that agents take warm-ups without having declared it.
	warmups bool
	// paced tells that agents cannot be told when to come back, so that they
	// are closed one by one.
	paced bool
}

// house is what the sessions of one server have in common.
type house struct {
	cfg       Config
	registrar Registrar
	queue     *queue
	door      *door
	exit      exit
	clock     clock.Clock
	counts    *Counts
	held      *budget // of what streams hold that was not taken
	receipts  Receipts
}

// frame is a message for the agent.
type frame interface {
	// parts are the encoded message: what is encoded into scratch, a body that
	// goes out as it is, and what follows it.
	parts(scratch []byte) (head, body []byte, tail string, err error)
}

// batchBytes is about how much one write to a socket carries.
const batchBytes = 64 << 10

// frameOverhead is more than a frame is larger than its payload.
const frameOverhead = 64

// outbox is what the writer is to send next.
type outbox struct {
	frames   []frame
	ping     bool   // somebody wants to know whether the agent is there
	pong     []byte // the answer to the agent's ping, if pongDue
	pongDue  bool
	answered bool // the agent answered our ping
	more     bool // there is more to send at once
	closing  *Closing
	// With closing: how long the socket is held, and the status of the close
	// frame.
	hold   time.Duration
	age    time.Duration // of the socket, when it began to close
	status uint16
}

// next fills the outbox.
func (s *Session) next(o *outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(o.frames)
	o.frames = o.frames[:0]
	s.nextLiveness(o)
	o.more = false
	if s.closing != nil {
		o.closing = s.closing
		s.wire.farewell(o, s.closing)
		return
	}
	s.wire.fill(o)
	s.house.counts.sent(int64(len(o.frames)))
}

// nextLiveness takes the pings and pongs that are due. Needs the mutex.
func (s *Session) nextLiveness(o *outbox) {
	o.ping, s.probe = s.probe, false
	o.answered, s.pongSeen = s.pongSeen, false
	o.pong = append(o.pong[:0], s.pong...)
	o.pongDue, s.pongDue = s.pongDue, false
}

// nextPong takes the pong that is due while the connection closes.
func (s *Session) nextPong(o *outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextLiveness(o)
}

// full tells that too much waits for an agent that asks for answers and does not
// read them, which ends the connection. Needs the mutex.
func (s *Session) full(waiting int) bool {
	if waiting < maxControl {
		return false
	}
	s.shut(protocolError("answers are not read"))
	return true
}
