package connection

import (
	"context"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/openai"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// stream is one request on a session. All but the immutable part is guarded by
// the session's mutex.
type stream struct {
	session *session
	id      uint32
	ctx     context.Context // ends with the request's time, CANCEL or the session
	stop    context.CancelFunc
	reserve int64         // bytes of the body's reservation
	room    chan struct{} // signalled when the writer has made room

	request       Request // Body grows until it is whole
	bodyLength    int
	attempt       uint32
	proof         []byte
	started       bool  // the body is whole and a goroutine answers
	released      bool  // slot and memory were given back
	dropped       error // why written bytes are dropped; nil while they are not
	seqIn, seqOut agentwire.Sequence
	recv          agentwire.Window // what the hub may still send
	credit        agentwire.Credit // what may still be sent
	out           []byte
	sent          int  // bytes of out that were sent
	queued        bool // it stands in the ring of the writer
	end           *agentv2.End

	// For the receipt, if one is made. count belongs to the goroutine that answers.
	counted, receipted       bool
	count                    counter
	acceptedTotal, sentTotal int64 // bytes
	marks                    []mark
	claim                    openai.Usage
}

// Write queues a piece of the engine's answer. It blocks while the buffer is
// full.
func (st *stream) Write(p []byte) (written int, err error) {
	for {
		n, err := st.accept(p[written:])
		if st.counted && n > 0 {
			st.count.add(p[written : written+n])
			st.note()
		}
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
		select {
		case <-st.room:
		case <-st.ctx.Done():
			return written, context.Cause(st.ctx)
		}
	}
}

// accept takes as many bytes as there is room for.
func (st *stream) accept(p []byte) (int, error) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.dropped != nil {
		return 0, st.dropped
	}
	n := min(len(p), outBuffer-st.pendingLocked())
	if st.sent > 0 && len(st.out)+n > cap(st.out) {
		st.out = st.out[:copy(st.out, st.out[st.sent:])]
		st.sent = 0
	}
	st.out = append(st.out, p[:n]...)
	st.acceptedTotal += int64(n)
	s.scheduleLocked(st)
	return n, nil
}

// pendingLocked is how many bytes wait.
func (st *stream) pendingLocked() int { return len(st.out) - st.sent }

// takeLocked removes n bytes from the buffer. They are valid until the mutex is released.
func (st *stream) takeLocked(n int) []byte {
	piece := st.out[st.sent : st.sent+n]
	st.sent += n
	st.sentTotal += int64(n)
	if st.sent == len(st.out) {
		st.out, st.sent = st.out[:0], 0
	}
	select {
	case st.room <- struct{}{}:
	default:
	}
	return piece
}

// dropLocked drops what waits and all that follows, and stops the engine.
func (st *stream) dropLocked(why error) {
	if st.dropped == nil {
		st.dropped = why
	}
	st.out, st.sent = nil, 0
	st.stop()
}

// dueLocked reports whether the stream has something for the writer.
func (st *stream) dueLocked() bool {
	if st.pendingLocked() > 0 {
		return st.credit > 0
	}
	return st.end != nil
}
