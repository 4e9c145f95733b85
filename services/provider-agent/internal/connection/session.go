package connection

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/receipts"
)

// phase is where a session stands.
type phase uint8

const (
	phaseRegistering phase = iota // REGISTER is sent or about to be
	phaseLive                     // acknowledged
	phaseOver                     // frames have no effect any more
)

// session is one connection. It is safe for concurrent use.
type session struct {
	cfg   Config
	log   *slog.Logger
	serve Serve
	slots *slots
	// receipts is nil when none are made.
	receipts *receipts.Store
	warmer   *warmer // nil when warm-ups are not taken
	clock    clock.Clock
	// hardware is what REGISTER told; it is not changed once it did.
	hardware *agentv2.Hardware

	ctx   context.Context // parent of all requests; ends with the session
	stop  context.CancelFunc
	work  sync.WaitGroup
	wake  chan struct{} // tells the writer that there is something to do
	acked chan struct{} // closed by REGISTER_ACK
	over  chan struct{} // closed by shut
	// moving is closed when another session is to take this one's place: the hub
	// drains, or the machine has changed.
	moving chan struct{}
	// drained is closed when no new requests are taken because of it, and heard when
	// the hub has read the DRAIN that says so.
	drained, heard chan struct{}

	mu            sync.Mutex
	phase         phase
	ack           *agentv2.RegisterAck
	end           *ending
	seqIn, seqOut uint32 // of stream 0
	last          uint32 // the last stream number seen
	streams       map[uint32]*stream
	recv          int64 // what the hub may still send
	owed          int64 // received and not yet granted again
	credit        int64 // what may still be sent
	control       []*agentv2.Frame
	ring          []*stream // streams that have something to send
	pong          []byte    // answer to the last ping
	pongDue       bool
	pingDue       bool
	askDue        bool // a ping that asks whether DRAIN was read
	draining      bool // no new streams
	leaving       bool // and the session ends when there are none
	stopping      bool // not even warm-ups hold it then
	warming       int  // warm-ups that wait or are done
	movesWhy      string
	drainAfter    time.Duration        // what the hub said when it drained
	due           []workreceipt.Signed // receipts to be sent
	passed        int                  // batches that went before them
}

func newSession(cfg Config, log *slog.Logger, serve Serve, slots *slots) *session {
	ctx, stop := context.WithCancel(context.Background())
	return &session{
		cfg: cfg, log: log, serve: serve, slots: slots, ctx: ctx, stop: stop,
		wake: make(chan struct{}, 1), acked: make(chan struct{}), over: make(chan struct{}),
		moving: make(chan struct{}), drained: make(chan struct{}), heard: make(chan struct{}),
		streams: map[uint32]*stream{}, recv: connWindow, credit: connWindow,
	}
}

// register queues the first frame.
func (s *session) register(r *agentv2.Register) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(&agentv2.Frame{Body: &agentv2.Frame_Register{Register: r}})
}

// heartbeat queues one, if the session is registered.
func (s *session) heartbeat(h *agentv2.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseLive {
		s.push(&agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: h}})
	}
}

// ping asks the writer for one.
func (s *session) ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pingDue = true
	s.signal()
}

// onPing keeps the answer for the writer; of several that wait only the last is
// answered, as the WebSocket standard allows.
func (s *session) onPing(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pong, s.pongDue = append(s.pong[:0], payload...), true
	s.signal()
}

// drain says that no new requests are taken; the session ends with the last
// one that is open. One that is not registered ends at once.
func (s *session) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseLive {
		s.push(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}})
	}
	s.draining, s.leaving, s.stopping = true, true, true
	s.endIfDrained()
}

// onDrain keeps a session that the hub drains, until relieve: its successor may
// be refused, and the hub may still want to hear of requests and receipts. Needs
// the mutex.
func (s *session) onDrain(after time.Duration) *ending {
	if s.phase != phaseLive {
		return &ending{text: "the hub is about to stop", after: after}
	}
	s.drainAfter = after
	if !s.draining {
		s.draining = true
		close(s.drained)
		s.move("the hub is about to stop")
	}
	return nil
}

// handOver wants another session to take this one's place, which goes on as
// before until that one has a connection and a credential.
func (s *session) handOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseLive && !s.draining {
		s.move("the machine has changed")
	}
}

// move says once that another session is wanted. Needs the mutex.
func (s *session) move(why string) {
	if s.movesWhy == "" {
		s.movesWhy = why
		close(s.moving)
	}
}

// giveWay takes no new requests, because a successor is about to register, and
// returns once the hub has read so: it ends an older session of a node that does
// not drain, and the successor speaks on another socket.
func (s *session) giveWay() {
	s.mu.Lock()
	if s.phase != phaseLive || s.draining {
		s.mu.Unlock()
		return
	}
	s.push(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}})
	s.draining = true
	close(s.drained)
	s.mu.Unlock()
	late := time.NewTimer(heardTimeout)
	defer late.Stop()
	select {
	case <-s.heard:
	case <-s.over:
	case <-late.C: // a hub that busy is no better off without the successor
	}
}

// ask has the writer ask whether the hub has read DRAIN, which was sent.
func (s *session) ask() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.askDue = true
	s.signal()
}

// onPong takes the answer to a ping. A hub reads frames and pings in their order.
// It is for the reader; a session may drain for a successor and then to stop.
func (s *session) onPong(payload string) {
	if payload != askHeard {
		return
	}
	select {
	case <-s.heard:
	default:
		close(s.heard)
	}
}

// successor is why another session is to take this one's place, and how long the
// hub asked to wait before.
func (s *session) successor() (why string, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.movesWhy, s.drainAfter
}

// isMoving tells whether another session is to take this one's place.
func (s *session) isMoving() bool {
	select {
	case <-s.moving:
		return true
	default:
		return false
	}
}

// relieve lets the session end with the last request and warm-up, because another
// one has taken its place.
func (s *session) relieve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining, s.leaving = true, true
	s.endIfDrained()
}

// endIfDrained needs the mutex.
func (s *session) endIfDrained() {
	if s.leaving && len(s.streams) == 0 && (s.warming == 0 || s.stopping) {
		s.shut(&ending{text: "drained"})
	}
}

// shut ends the session: its requests stop, frames that still arrive have no
// effect, and the writer closes the socket. Only the first call counts. Needs
// the mutex.
func (s *session) shut(why *ending) {
	if s.phase == phaseOver {
		return
	}
	s.phase = phaseOver
	s.end = why
	s.stop()
	for _, st := range s.streams {
		st.drop(errLost)
		if !st.started {
			s.free(st)
		}
		if st.end != nil {
			s.receipt(st, false) // it was answered, and not all is sent
		}
	}
	close(s.over)
	s.signal()
}

// fail is shut for those who do not hold the mutex.
func (s *session) fail(why *ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut(why)
}

// start has a request answered whose body is whole. Needs the mutex.
func (s *session) start(st *stream) {
	st.started = true
	request := st.request
	st.request.Body = nil
	s.work.Go(func() {
		answer := s.serve(st.ctx, request, st)
		s.finish(st, answer)
	})
}

// finish ends a request that was answered, or failed to be.
func (s *session) finish(st *stream, answer Answer) {
	late := context.Cause(st.ctx)
	st.stop()
	if st.counted {
		st.count.end(answer.Err == nil)
		st.note()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := answer.Err
	switch {
	case st.dropped != nil:
		err = st.dropped
	case err != nil && late != nil:
		err = late
	}
	end := &agentv2.End{EngineStatus: int32(answer.Status), Complete: err == nil}
	if err != nil {
		end.Error = cut(clean(err.Error()), maxError)
	}
	// The slot is free before the hub hears of the end, or its next request
	// would find none.
	s.free(st)
	st.claim, st.count = st.count.usage, counter{}
	s.endStream(st, end)
	if s.phase == phaseOver {
		s.receipt(st, false)
	}
}

// free gives a request's slot and memory back, once. Needs the mutex.
func (s *session) free(st *stream) {
	if !st.released {
		st.released = true
		s.slots.release(st.request.ModelID, st.reserve)
	}
}

// endStream lets END follow what waits to be sent. Needs the mutex.
func (s *session) endStream(st *stream, end *agentv2.End) {
	if st.end == nil {
		st.end = end
	}
	s.schedule(st)
}

// sweep ends the requests whose time is over and whose body never came.
func (s *session) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if !st.started && st.end == nil && st.ctx.Err() != nil {
			s.giveUp(st, errBodyLate)
		}
	}
}

// giveUp ends a request that was never started. Needs the mutex.
func (s *session) giveUp(st *stream, why error) {
	st.request.Body = nil
	st.drop(why)
	s.free(st)
	s.endStream(st, &agentv2.End{Error: why.Error()})
}

// signal wakes the writer.
func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// cut shortens a text to bytes of whole UTF-8.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}
