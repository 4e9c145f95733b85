package session

import (
	"bytes"
	"time"
)

// Bounds of a stream without credit: the bytes and the chunks that wait to be taken, and
// the chunks that wait when nobody took any for chunkPatience.
const (
	maxUntaken    = 1 << 20
	maxBurst      = 1024
	maxChunks     = 256
	chunkPatience = time.Second
)

// deliveredLocked notes that n more bytes wait to be taken, and reports whether the hub
// has room for the bytes. Without room it notes nothing.
func (st *Stream) deliveredLocked(n int) bool {
	s := st.session
	if !s.env.Held.Take(s.identity.ProviderID, int64(n)) {
		return false
	}
	st.held += int64(n)
	s.held += int64(n)
	s.env.Counts.Held.Add(int64(n))
	s.holders[st] = struct{}{}
	st.signal()
	return true
}

// answeredLocked appends an answer that came in one message, and reports whether the hub has
// room for it. It does not count as the session's, because other streams would be given
// up for it. Until it is taken, the slots bound it, with one message each. An answer to a
// request is taken at once, and its taker counts it from then on. An answer to a challenge
// counts as the hub's, because its taker waits for the verifier.
func (st *Stream) answeredLocked(answer []byte) bool {
	s, n := st.session, int64(len(answer))
	if st.timing != nil {
		if !s.env.Held.Take(s.identity.ProviderID, n) {
			return false
		}
		st.apart += n
		s.env.Counts.Held.Add(n)
	}
	st.in = append(st.in, answer...)
	st.cameLocked()
	return true
}

// cameLocked notes that the last bytes of a challenge were read now. Nobody asks for the
// times of other requests, so those cost nothing.
func (st *Stream) cameLocked() {
	if st.timing != nil {
		st.timing.came(len(st.in), st.session.env.Clock.Now())
	}
}

// letGoLocked notes that no bytes of a stream are held any more.
func (s *Session) letGoLocked(st *Stream) {
	if st.apart > 0 {
		s.env.Held.Give(s.identity.ProviderID, st.apart)
		s.env.Counts.Held.Add(-st.apart)
		st.apart = 0
	}
	if st.held == 0 {
		return
	}
	s.held -= st.held
	s.env.Held.Give(s.identity.ProviderID, st.held)
	s.env.Counts.Held.Add(-st.held)
	st.held = 0
	delete(s.holders, st)
}

// relieveLocked gives up the streams that hold most until the session has room for n
// bytes more. A stream that has ended loses its end too, because the end of an answer is
// worth nothing without the bytes before it.
func (s *Session) relieveLocked(n int64) {
	for s.held+n > s.env.Config.ConnWindow && len(s.holders) > 0 {
		var most *Stream
		for st := range s.holders {
			if most == nil || st.held > most.held || st.held == most.held && st.id < most.id {
				most = st
			}
		}
		most.ended = nil
		most.failLocked(ErrBehind)
		s.letGoLocked(most)
		most.in, most.spare = nil, nil
	}
}

// behindLocked reports whether more would wait than a stream without credit may hold.
// Chunks that come at once, after a pause of the network, are no sign of a slow consumer.
// So up to maxBurst chunks may wait for chunkPatience, and maxChunks for longer.
func (st *Stream) behindLocked(n int) bool {
	switch {
	case len(st.in)+n > maxUntaken, st.chunks > maxBurst:
		return true
	case st.chunks > maxChunks:
		return st.session.env.Clock.Now().Sub(st.since) > chunkPatience
	default:
		return false
	}
}

// passedLocked notes that n bytes of an answer were passed on or dropped, and grants
// their credit again, in steps of at least a quarter of the window.
func (s *Session) passedLocked(st *Stream, n int64) {
	if !s.limits.Strict || !s.State().registered() || st.task() != nil {
		return // no credit was spent
	}
	s.usedLocked(n)
	st.window.Owe(n)
	if st.ended != nil || st.released {
		return
	}
	if due := st.window.Grant(); due > 0 {
		s.pushLocked(Outbound{Kind: OutCredit, Stream: st.id, Credit: due})
	}
}

// usedLocked grants the connection's credit for n bytes again.
func (s *Session) usedLocked(n int64) {
	s.window.Owe(n)
	if due := s.window.Grant(); due > 0 {
		s.pushLocked(Outbound{Kind: OutCredit, Credit: due})
	}
}

// appendEvent appends a chunk as an event of a stream. Line ends become spaces, because
// JSON may have them between its parts and they would end the event.
func appendEvent(dst, chunk []byte) []byte {
	dst = append(dst, "data: "...)
	at := len(dst)
	dst = append(dst, chunk...)
	if bytes.IndexByte(chunk, '\n') >= 0 || bytes.IndexByte(chunk, '\r') >= 0 {
		for i := range dst[at:] {
			if b := dst[at+i]; b == '\r' || b == '\n' {
				dst[at+i] = ' '
			}
		}
	}
	return append(dst, "\n\n"...)
}

// doneEvent is the event that ends a stream.
const doneEvent = "data: [DONE]\n\n"
