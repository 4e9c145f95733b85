package session

import (
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/meter"
)

// maxEndError bounds End.Error, in characters.
const maxEndError = 1024

// freedInterval is the least pause between reports that full models have a slot again.
const freedInterval = time.Second

// Open begins a request. It fails with ErrGone, ErrNotOffered, ErrBusy,
// ErrTooLarge or ErrNotSendable, and a challenge also with ErrChallenged.
func (s *Session) Open(r Request) (*Stream, error) {
	window := s.env.Config.StreamWindow
	st := &Stream{
		session: s, ready: make(chan struct{}, 1), request: r, body: r.Body,
		credit: agentwire.Credit(window), window: agentwire.NewWindow(window),
	}
	if s.limits.Fits != nil {
		if err := s.limits.Fits(&st.request); err != nil {
			return nil, err
		}
	}
	st.request.Body = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.State() != Live || s.socketClosed || !s.active && r.Challenge == nil {
		return nil, ErrGone
	}
	m := s.models[r.Model]
	if m == nil || !s.answersLocked(st) {
		return nil, ErrNotOffered
	}
	if err := s.challengedLocked(&r, len(r.Body)); err != nil {
		return nil, err
	}
	if m.inFlight >= m.offer.Capacity || len(s.streams) >= s.limits.Streams {
		return nil, ErrBusy
	}
	m.inFlight++
	s.env.Counts.Slots.Add(1)
	s.last++
	st.id, st.model, st.named = s.last, m, m.offer.EngineModel
	s.streams[st.id] = st
	s.challengeLocked(st)
	if !s.limits.Strict {
		st.name = r.RequestID + "-" + strconv.FormatUint(uint64(st.id), 10)
		s.names[st.name] = st
	}
	s.requests = append(s.requests, st)
	s.wake()
	return st, nil
}

// answersLocked reports whether the agent takes such requests.
func (s *Session) answersLocked(st *Stream) bool {
	if task := st.task(); task != nil {
		return s.takesTaskLocked(task)
	}
	k := st.request.Kind
	return k == meter.Chat || slices.Contains(s.caps, k.String())
}

// EngineModel is the engine's name for the model, as the agent says, cleaned; empty for
// none.
func (st *Stream) EngineModel() string { return st.named }

// Ready is signalled when Take has something new.
func (st *Stream) Ready() <-chan struct{} { return st.ready }

// Take returns the bytes that have arrived since the last call. The end of the stream, or
// the error by which it failed, comes with the last piece or after it. Release follows
// every Take.
func (st *Stream) Take() (piece []byte, end *End, err error) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.takeLocked()
}

func (st *Stream) takeLocked() (piece []byte, end *End, err error) {
	piece = st.in
	st.session.letGoLocked(st)
	st.in, st.spare = st.spare, nil
	return piece, st.ended, st.err
}

// Release notes that n bytes were passed on, so that the agent may send as many more, and
// gives a piece back for the bytes that arrive next. The piece need not be the piece that
// the bytes came in.
func (st *Stream) Release(n int, piece []byte) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 {
		s.passedLocked(st, int64(n))
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
	s.wake()
}

// Close notes that nobody takes the answer any more. Bytes that still arrive are dropped.
// With cancel, an agent that has not ended the stream is asked to give the request up.
// The slot stays taken until the agent has ended the stream or the grace is over.
func (st *Stream) Close(cancel bool) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(st, cancel)
}

// Cancel asks the agent to give the request up, and leaves the stream open for what the
// agent sends until its END. A request that the agent was not sent yet is taken back
// instead.
func (st *Stream) Cancel() {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelLocked(st)
}

func (s *Session) releaseLocked(st *Stream, cancel bool) {
	if st.released {
		return
	}
	st.released = true
	if n := int64(len(st.in)); n > 0 {
		s.passedLocked(st, n)
	}
	s.letGoLocked(st)
	st.in, st.spare = nil, nil
	st.stopSendingLocked()
	if s.streams[st.id] != st {
		return // it has ended
	}
	if !st.opened {
		s.forgetLocked(st) // the agent is never sent the request
		return
	}
	if cancel {
		s.cancelLocked(st)
	}
	st.grace = time.AfterFunc(s.graceLocked(st), func() { s.overdue(st) })
	s.outlivesLocked(st)
}

// graceLocked is how long a request that nobody wants may still take to end. Where
// nothing can be cancelled, it is the rest of Limits.Total or the grace, whichever is
// longer, because agents end their streams themselves after so long.
func (s *Session) graceLocked(st *Stream) time.Duration {
	if s.limits.Strict {
		return s.env.Config.CancelGrace
	}
	age := s.env.Clock.Now().Sub(st.sentAt)
	return max(s.limits.Total-age, s.env.Config.CancelGrace)
}

// cancelLocked asks the agent to give a request up, if the agent can be asked.
func (s *Session) cancelLocked(st *Stream) {
	st.stopSendingLocked()
	if !s.State().registered() || st.cancelled || s.streams[st.id] != st {
		return
	}
	st.cancelled = true
	if !st.opened {
		st.failLocked(ErrReset)
		s.forgetLocked(st)
		return
	}
	if s.limits.Strict && st.task() == nil {
		s.pushLocked(Outbound{Kind: OutCancel, Stream: st.id})
	}
}

// overdue frees the slot of a stream that was released and did not end. A stream that was
// not cancelled yet, because its answer was whole, is cancelled first and has another
// grace.
func (s *Session) overdue(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.id] != st {
		return
	}
	if !st.cancelled {
		s.cancelLocked(st)
		st.grace.Reset(s.env.Config.CancelGrace)
		return
	}
	s.forgetLocked(st)
}

// concludeLocked takes the agent's last word on a stream. The session keeps end.
func (s *Session) concludeLocked(st *Stream, end *End) {
	end.Error = Clean(end.Error, maxEndError)
	if end.Status < 0 || end.Status > 999 {
		end.Status = 0 // no HTTP answer has it
	}
	if st.err == nil {
		st.ended = end
	}
	st.timing.answered()
	st.timing.over(s.env.Clock.Now())
	st.signal()
	s.forgetLocked(st)
}

// failStreamsLocked fails every open stream.
func (s *Session) failStreamsLocked() {
	for _, st := range s.streams {
		st.failLocked(ErrLost)
		s.forgetLocked(st)
	}
}

// forgetLocked frees the slot of a stream and its number. Where answers are correlated by
// name, more messages may come of a request that the agent was sent.
func (s *Session) forgetLocked(st *Stream) {
	delete(s.streams, st.id)
	s.unchallengeLocked(st)
	if !s.limits.Strict {
		delete(s.names, st.name)
		if st.opened {
			s.strays.forgotten(st.name)
		}
	}
	st.stopSendingLocked()
	full := st.model.inFlight >= st.model.offer.Capacity
	st.model.inFlight--
	s.env.Counts.Slots.Add(-1)
	s.outlivesLocked(st)
	if st.grace != nil {
		st.grace.Stop()
	}
	s.emptiedLocked()
	if full {
		s.freedLocked()
	}
}

// outlivesLocked has routers told of a slot that outlives its request, and later that the
// slot is free. Routers see only the end of the request, but an agent that cannot be told
// to stop goes on with an answer that nobody wants.
func (s *Session) outlivesLocked(st *Stream) {
	if st.released && !s.limits.Strict && s.State().registered() {
		s.env.Registrar.Touch(s)
	}
}

// freedLocked has routers told that a full model has a slot again. Routers count the
// slots that they book and the ends that they hear of. A router whose last report was
// made between a booking and its end would believe a free model full until the next
// report.
func (s *Session) freedLocked() {
	switch {
	case !s.State().registered():
	case s.freeing != nil:
		s.freedAgain = true
	default:
		s.env.Registrar.Touch(s)
		s.freeing = time.AfterFunc(freedInterval, s.freedSince)
	}
}

// freedSince has routers told of the slots that were freed in the pause.
func (s *Session) freedSince() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeing = nil
	if s.freedAgain {
		s.freedAgain = false
		s.freedLocked()
	}
}
