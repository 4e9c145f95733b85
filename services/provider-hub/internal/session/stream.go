package session

import (
	"slices"
	"time"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/meter"
)

// Request is what an agent is asked to do.
type Request struct {
	RequestID string
	Attempt   uint32
	Model     string
	// Kind is what is asked for. But for chat, agents must have declared it.
	Kind   meter.Kind
	Stream bool
	// Body goes to the agent as it is. It must not change until the stream is
	// closed. ContentType is its media type; empty for JSON.
	Body        []byte
	ContentType string
	// ModelOffset and ModelLength say where in Body the model's name stands.
	ModelOffset uint32
	ModelLength uint32
	Traceparent string
	// Timeout is when the hub gives the request up.
	Timeout time.Duration
	// Proof is what the agent repeats in its receipt; nil for none.
	Proof []byte
}

// End is the agent's last word on a stream.
type End struct {
	// Status is the engine's HTTP status, 0 when it could not be reached.
	Status   int
	Complete bool
	// Error is for operators: printable, at most 1,024 characters.
	Error string
	Busy  bool
}

// Stream is one request on a session. Take and Release are for one goroutine.
type Stream struct {
	session *Session
	id      uint32
	model   *model
	ready   chan struct{}

	// All below is guarded by the session's mutex.
	request   Request
	opened    bool // OPEN was sent
	queued    bool // the stream stands in the bulk ring
	sent      int  // body bytes that were sent
	finished  bool // the whole body was sent, or nothing more will be
	seqIn     uint32
	seqOut    uint32
	credit    int64 // what may still be sent
	recv      int64 // what the agent may still send
	owed      int64 // taken and not yet granted again
	in, spare []byte
	ended     *End
	err       error
	released  bool // nobody takes the answer any more
	cancelled bool // CANCEL was sent
	grace     *time.Timer
}

// Open begins a request. It fails with ErrGone, ErrNotOffered or ErrBusy.
func (s *Session) Open(r Request) (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseLive || s.draining || !s.active {
		return nil, ErrGone
	}
	m := s.models[r.Model]
	if m == nil || !s.answers(r.Kind) {
		return nil, ErrNotOffered
	}
	if m.inFlight >= m.offer.Capacity || len(s.streams) >= maxStreams {
		return nil, ErrBusy
	}
	m.inFlight++
	s.counts.slots(1)
	s.last++
	st := &Stream{
		session: s, id: s.last, model: m, ready: make(chan struct{}, 1), request: r,
		credit: s.cfg.StreamWindow, recv: s.cfg.StreamWindow,
	}
	s.streams[st.id] = st
	s.interactive = append(s.interactive, st)
	s.signal()
	return st, nil
}

// answers tells whether the agent takes requests of a kind. Needs the mutex.
func (s *Session) answers(k meter.Kind) bool {
	return k == meter.Chat || slices.Contains(s.caps, k.String())
}

// Ready is signalled when Take has something new.
func (st *Stream) Ready() <-chan struct{} { return st.ready }

// Take returns what has arrived since the last call. The end comes with the
// last piece or after it; an error (ErrLost, ErrReset) comes when all that
// arrived before it was taken. Release follows every Take.
func (st *Stream) Take() (piece []byte, end *End, err error) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	piece = st.in
	st.in, st.spare = st.spare, nil
	return piece, st.ended, st.err
}

// Release says that n bytes were passed on, which the agent may now send again,
// and gives a piece back for what arrives next. The piece need not be the one
// that the bytes came in.
func (st *Stream) Release(n int, piece []byte) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	st.account(int64(n))
	switch {
	case cap(piece) == 0 || st.released:
	case st.in == nil:
		st.in = piece[:0]
	case st.spare == nil:
		st.spare = piece[:0]
	}
}

// Probe asks for a ping now, to learn whether the agent is still there.
func (st *Stream) Probe() {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probe = true
	s.signal()
}

// Close says that nobody takes the answer any more. What still arrives is
// dropped. With cancel, an agent that has not ended the stream is asked to stop
// its engine; the slot stays taken until it has, or until the grace is over.
func (st *Stream) Close(cancel bool) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(st, cancel)
}

// Cancel asks the agent to stop its engine, and leaves the stream open for
// what it says until its END. A request that the agent has not heard of is
// taken back instead.
func (st *Stream) Cancel() {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(st)
}

// release needs the mutex.
func (s *Session) release(st *Stream, cancel bool) {
	if st.released {
		return
	}
	st.released = true
	st.account(int64(len(st.in)))
	st.in, st.spare = nil, nil
	st.stopSending()
	if s.streams[st.id] != st {
		return // it has ended
	}
	if !st.opened {
		s.forget(st.id, st) // the agent never hears of it
		return
	}
	if cancel {
		s.cancel(st)
	}
	st.grace = time.AfterFunc(s.cfg.CancelGrace, func() { s.overdue(st) })
}

// cancel needs the mutex.
func (s *Session) cancel(st *Stream) {
	st.stopSending()
	if s.phase != phaseLive || st.cancelled || s.streams[st.id] != st {
		return
	}
	st.cancelled = true
	if !st.opened {
		st.fail(ErrReset)
		s.forget(st.id, st)
		return
	}
	s.push(&agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}})
}

// overdue frees the slot of a stream that was released and did not end. One
// that was not cancelled yet, because its answer was whole, is cancelled first.
func (s *Session) overdue(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.id] != st {
		return
	}
	if !st.cancelled {
		s.cancel(st)
		st.grace.Reset(s.cfg.CancelGrace)
		return
	}
	s.forget(st.id, st)
}

// stopSending drops what was not sent of the body.
func (st *Stream) stopSending() {
	st.finished = true
	st.request.Body = nil
}

// fail needs the mutex.
func (st *Stream) fail(err error) {
	if st.ended == nil && st.err == nil {
		st.err = err
	}
	st.signal()
}

func (st *Stream) signal() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

// forget frees the slot of a stream and its number. Needs the mutex.
func (s *Session) forget(id uint32, st *Stream) {
	delete(s.streams, id)
	st.stopSending()
	st.model.inFlight--
	s.counts.slots(-1)
	if st.grace != nil {
		st.grace.Stop()
	}
}

// account grants n bytes again, in steps of a quarter window. Needs the mutex.
func (st *Stream) account(n int64) {
	s := st.session
	if n == 0 || s.phase != phaseLive {
		return
	}
	s.takenFromConn(n)
	st.owed += n
	if st.owed >= s.cfg.StreamWindow/4 && st.ended == nil && !st.released {
		st.recv += st.owed
		s.push(window(st.id, st.owed))
		st.owed = 0
	}
}

// takenFromConn needs the mutex.
func (s *Session) takenFromConn(n int64) {
	s.recvOwed += n
	if s.recvOwed >= s.cfg.ConnWindow/4 {
		s.recvCredit += s.recvOwed
		s.push(window(0, s.recvOwed))
		s.recvOwed = 0
	}
}

func window(stream uint32, bytes int64) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: uint32(bytes)}}}
}
