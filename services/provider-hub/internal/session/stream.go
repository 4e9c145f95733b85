package session

import (
	"slices"
	"time"

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

// maxEndError is in characters.
const maxEndError = 1024

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
	// named is what the engine was said to call the model when the stream began.
	named string
	// wire is what the dialect knows of the stream.
	wire any

	// All below is guarded by the session's mutex.
	request   Request
	opened    bool // the agent was told
	finished  bool // the whole body was sent, or nothing more will be
	in, spare []byte
	held      int64 // bytes of in that count as the session's
	ended     *End
	err       error
	released  bool // nobody takes the answer any more
	cancelled bool // the agent was asked to stop, or would be if it could
	grace     *time.Timer
}

// Open begins a request. It fails with ErrGone, ErrNotOffered, ErrBusy,
// ErrTooLarge or ErrNotSendable.
func (s *Session) Open(r Request) (*Stream, error) {
	if err := s.wire.check(&r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != phaseLive || s.gone || s.draining || !s.active {
		return nil, ErrGone
	}
	m := s.models[r.Model]
	if m == nil || !s.answers(r.Kind) {
		return nil, ErrNotOffered
	}
	if m.inFlight >= m.offer.Capacity || len(s.streams) >= s.terms.streams {
		return nil, ErrBusy
	}
	m.inFlight++
	s.house.counts.slots(1)
	s.last++
	st := s.wire.open(s.last, r)
	st.model, st.named = m, m.offer.EngineModel
	s.streams[st.id] = st
	s.signal()
	return st, nil
}

// newStream is what every dialect begins with.
func (s *Session) newStream(id uint32, r Request) Stream {
	return Stream{session: s, id: id, ready: make(chan struct{}, 1), request: r}
}

// answers reports whether the agent takes requests of a kind. Needs the mutex.
func (s *Session) answers(k meter.Kind) bool {
	return k == meter.Chat || slices.Contains(s.caps, k.String())
}

// EngineModel is what the agent said that its engine calls the model, cleaned;
// empty for nothing.
func (st *Stream) EngineModel() string { return st.named }

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
	s.letGo(st)
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
	if n > 0 {
		s.wire.passed(st, int64(n))
	}
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

// delivered notes that n bytes are added to what waits to be taken, and reports
// whether this hub has room for them; else nothing is noted. Needs the mutex.
func (st *Stream) delivered(n int) bool {
	s := st.session
	if !s.house.held.take(s.identity.ProviderID, int64(n)) {
		return false
	}
	st.held += int64(n)
	s.held += int64(n)
	s.house.counts.Held.Add(int64(n))
	s.holders[st] = struct{}{}
	st.signal()
	return true
}

// letGo notes that nothing of a stream is held any more. Needs the mutex.
func (s *Session) letGo(st *Stream) {
	if st.held == 0 {
		return
	}
	s.held -= st.held
	s.house.held.give(s.identity.ProviderID, st.held)
	s.house.counts.Held.Add(-st.held)
	st.held = 0
	delete(s.holders, st)
}

// relieve gives up the streams that hold most until there is room for n bytes
// more. One that has ended is given up too: its end is worth nothing without
// what came before. Needs the mutex.
func (s *Session) relieve(n int64) {
	for s.held+n > s.cfg.ConnWindow && len(s.holders) > 0 {
		var most *Stream
		for st := range s.holders {
			if most == nil || st.held > most.held || st.held == most.held && st.id < most.id {
				most = st
			}
		}
		most.ended = nil
		most.fail(ErrBehind)
		s.letGo(most)
		most.in, most.spare = nil, nil
	}
}

// release needs the mutex.
func (s *Session) release(st *Stream, cancel bool) {
	if st.released {
		return
	}
	st.released = true
	if n := int64(len(st.in)); n > 0 {
		s.wire.passed(st, n)
	}
	s.letGo(st)
	st.in, st.spare = nil, nil
	st.stopSending()
	if s.streams[st.id] != st {
		return // it has ended
	}
	if !st.opened {
		s.forget(st) // the agent never hears of it
		return
	}
	if cancel {
		s.cancel(st)
	}
	st.grace = time.AfterFunc(s.wire.slot(st), func() { s.overdue(st) })
	s.outlives(st)
}

// outlives tells the registrar of a slot that is taken or free although routers
// know of no request that ends: agents of some dialects go on with what nobody
// wants. Needs the mutex.
func (s *Session) outlives(st *Stream) {
	if st.released && s.terms.lasting && s.phase == phaseLive {
		s.house.registrar.Touch(s)
	}
}

// freedEvery is the least pause between reports that a full model is full no more.
const freedEvery = time.Second

// freed has routers told that a model which was full has a slot. They count what
// they book and what they hear of ends; one whose last report was made between the
// two would take a full model for full until the next. Needs the mutex.
func (s *Session) freed() {
	switch {
	case s.phase != phaseLive:
	case s.freeing != nil:
		s.freedAgain = true
	default:
		s.house.registrar.Touch(s)
		s.freeing = time.AfterFunc(freedEvery, s.freedSince)
	}
}

// freedSince tells of what was freed in the pause.
func (s *Session) freedSince() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeing = nil
	if s.freedAgain {
		s.freedAgain = false
		s.freed()
	}
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
		s.forget(st)
		return
	}
	s.wire.cancel(st)
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
	s.forget(st)
}

// stopSending drops what was not sent of the body.
func (st *Stream) stopSending() {
	st.finished = true
	st.request.Body = nil
}

// conclude is the agent's last word on a stream. Needs the mutex.
func (s *Session) conclude(st *Stream, end End) {
	end.Error = Clean(end.Error, maxEndError)
	if end.Status < 0 || end.Status > 999 {
		end.Status = 0 // of no HTTP answer
	}
	if st.err == nil {
		st.ended = &end
	}
	st.signal()
	s.forget(st)
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
func (s *Session) forget(st *Stream) {
	delete(s.streams, st.id)
	s.wire.forget(st)
	st.stopSending()
	if st.model.inFlight >= st.model.offer.Capacity {
		defer s.freed()
	}
	st.model.inFlight--
	s.house.counts.slots(-1)
	s.outlives(st)
	if st.grace != nil {
		st.grace.Stop()
	}
	s.finished()
}
