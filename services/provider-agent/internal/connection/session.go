package connection

import (
	"context"
	"sync"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/workreceipts"
)

// sessionDeps are what a session works with.
type sessionDeps struct {
	serve Serve
	slots *slots
	// receipts is nil when none are made.
	receipts *workreceipts.Store
	// worked, if not nil, is called with each receipt that is made.
	worked func(workreceipt.Receipt)
	warmer *warmer // nil when warm-ups are not taken
	prover *prover // nil when challenges are not taken
	clock  clock.Clock
	// registered is what REGISTER said of the machine and of the capabilities. It never
	// changes.
	registered *agentv2.Register
}

// session is one connection. Its state changes only by the table in state.go. It is safe
// for concurrent use.
type session struct {
	cfg Config
	sessionDeps

	ctx   context.Context // parent of all requests; ends with the session
	stop  context.CancelFunc
	work  sync.WaitGroup
	wake  chan struct{} // wakes the writer
	acked chan struct{} // closed by REGISTER_ACK
	over  chan struct{} // closed by shut
	// moving is closed when another session is to replace this one, because the hub
	// drains or what REGISTER said has changed.
	moving chan struct{}
	// drained is closed when the session takes no new requests for that reason, and heard
	// when the hub has read the DRAIN that says so.
	drained, heard chan struct{}
	// beats has the last answer to a heartbeat, until somebody takes it.
	beats chan *agentv2.HeartbeatAck

	mu            sync.Mutex
	state         state
	ack           *agentv2.RegisterAck
	why           *ending            // why the session is over
	seqIn, seqOut agentwire.Sequence // of stream 0
	last          uint32             // the last stream number seen
	streams       map[uint32]*stream
	recv          agentwire.Window // what the hub may still send
	credit        agentwire.Credit // what may still be sent
	control       []*agentv2.Frame
	ring          []*stream // streams with something to send
	pong          []byte    // answer to the last ping
	pongDue       bool
	pingDue       bool
	askDue        bool // a ping that asks whether DRAIN was read
	warming       int  // warm-ups that wait or are done
	movesWhy      string
	drainAfter    time.Duration        // the hub's time when it drained
	due           []workreceipt.Signed // receipts to be sent
	passed        int                  // batches that were sent before them
}

func newSession(cfg Config, deps sessionDeps) *session {
	ctx, stop := context.WithCancel(context.Background())
	return &session{
		cfg: cfg, sessionDeps: deps, ctx: ctx, stop: stop, state: registering,
		wake: make(chan struct{}, 1), acked: make(chan struct{}), over: make(chan struct{}),
		moving: make(chan struct{}), drained: make(chan struct{}), heard: make(chan struct{}),
		beats:   make(chan *agentv2.HeartbeatAck, 1),
		streams: map[uint32]*stream{}, recv: agentwire.NewWindow(agentwire.ConnWindow), credit: agentwire.ConnWindow,
	}
}

// register queues the first frame.
func (s *session) register(r *agentv2.Register) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushLocked(&agentv2.Frame{Body: &agentv2.Frame_Register{Register: r}})
}

// heartbeat queues a heartbeat, if the session is registered.
func (s *session) heartbeat(h *agentv2.Heartbeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.registered() {
		s.pushLocked(&agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: h}})
	}
}

// ping asks the writer for a ping.
func (s *session) ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pingDue = true
	s.signal()
}

// onPing keeps the answer for the writer. Of several that wait only the last is answered,
// as the WebSocket standard allows.
func (s *session) onPing(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pong, s.pongDue = append(s.pong[:0], payload...), true
	s.signal()
}

// drain says that no new requests are taken. The session ends with its last open request.
// A session that is not registered ends at once.
func (s *session) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.registered() {
		s.pushLocked(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}})
	}
	s.endLocked(stops, &ending{text: "drained"})
	s.emptiedLocked()
}

// onDrainLocked keeps a session that the hub drains until relieve, because its successor
// may be refused, and the hub may still send requests and acknowledge receipts.
func (s *session) onDrainLocked(after time.Duration) *ending {
	if !s.state.registered() {
		return &ending{text: "the hub is about to stop", after: after}
	}
	s.drainAfter = after
	if s.pullLocked(hubDrains) {
		s.wantSuccessorLocked("the hub is about to stop")
	}
	return nil
}

// handOver asks for another session to replace this one. This session takes requests as
// before until the other one has a connection and a credential.
func (s *session) handOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pullLocked(machineChanged) {
		s.wantSuccessorLocked("the machine, or what its engines can do, has changed")
	}
}

// wantSuccessorLocked asks, once, for another session to replace this one.
func (s *session) wantSuccessorLocked(why string) {
	if s.movesWhy == "" {
		s.movesWhy = why
		close(s.moving)
	}
}

// giveWay takes no new requests, because a successor is about to register. It returns
// once the hub has read the DRAIN: the hub ends an older session of a node that does not
// drain, and the successor speaks on another socket.
func (s *session) giveWay() {
	s.mu.Lock()
	if !s.pullLocked(givesWay) {
		s.mu.Unlock()
		return
	}
	s.pushLocked(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}})
	s.mu.Unlock()
	late := time.NewTimer(heardTimeout)
	defer late.Stop()
	select {
	case <-s.heard:
	case <-s.over:
	case <-late.C: // a hub that is so busy is no better off without the successor
	}
}

// ask makes the writer ask whether the hub has read the DRAIN that was sent.
func (s *session) ask() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.askDue = true
	s.signal()
}

// onPong takes the answer to a ping. A hub reads frames and pings in their order. onPong
// is for the reader. A session may drain for a successor and then to stop.
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

// successor returns why another session is to replace this one, and how long the hub
// asked to wait before.
func (s *session) successor() (why string, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.movesWhy, s.drainAfter
}

// isMoving reports whether another session is to replace this one.
func (s *session) isMoving() bool {
	select {
	case <-s.moving:
		return true
	default:
		return false
	}
}

// relieve lets the session end with the last request and warm-up, because another one has
// taken its place.
func (s *session) relieve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(relieved, &ending{text: "drained"})
	s.emptiedLocked()
}

// pullLocked pulls a trigger, and reports whether the state has changed.
func (s *session) pullLocked(t trigger) bool {
	next := table[s.state][t]
	if next == 0 {
		return false
	}
	s.state = next
	if next == draining {
		close(s.drained) // draining is entered once
	}
	return true
}

// emptiedLocked ends a session that is to end and that nothing holds any more.
func (s *session) emptiedLocked() {
	if s.state.ends() && len(s.streams) == 0 && (s.warming == 0 || s.state == stopping) {
		s.endLocked(emptied, &ending{text: "drained"})
	}
}

// endLocked pulls a trigger. If the session is over by that, its requests stop, frames
// that still arrive have no effect, and the writer closes the socket. Only the first
// reason counts.
func (s *session) endLocked(t trigger, why *ending) {
	if !s.pullLocked(t) || s.state != over {
		return
	}
	s.why = why
	s.stop()
	for _, st := range s.streams {
		st.dropLocked(errLost)
		if !st.started {
			s.freeLocked(st)
		}
		if st.end != nil {
			s.receiptLocked(st, false) // it was answered, and not all of it is sent
		}
	}
	close(s.over)
	s.signal()
}

// fail ends the session for callers without the mutex.
func (s *session) fail(why *ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(fails, why)
}

// startLocked answers a request whose body is whole.
func (s *session) startLocked(st *stream) {
	st.started = true
	request := st.request
	st.request.Body = nil
	s.work.Go(func() {
		answer := s.serve(st.ctx, request, st)
		s.finish(st, answer)
	})
}

// finish ends a request that was answered or has failed.
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
	// The slot is free before the hub hears of the end, because the hub's next request
	// would otherwise find none.
	s.freeLocked(st)
	st.claim, st.count = st.count.usage, counter{}
	s.endStreamLocked(st, end)
	if s.state == over {
		s.receiptLocked(st, false)
	}
}

// freeLocked gives a request's slot and memory back, once.
func (s *session) freeLocked(st *stream) {
	if !st.released {
		st.released = true
		s.slots.release(st.request.ModelID, st.reserve)
	}
}

// endStreamLocked queues END behind what waits to be sent.
func (s *session) endStreamLocked(st *stream, end *agentv2.End) {
	if st.end == nil {
		st.end = end
	}
	s.scheduleLocked(st)
}

// sweep ends the requests whose body did not come in time.
func (s *session) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if !st.started && st.end == nil && st.ctx.Err() != nil {
			s.giveUpLocked(st, errBodyLate)
		}
	}
}

// giveUpLocked ends a request that was never started.
func (s *session) giveUpLocked(st *stream, why error) {
	st.request.Body = nil
	st.dropLocked(why)
	s.freeLocked(st)
	s.endStreamLocked(st, &agentv2.End{Error: why.Error()})
}

// signal wakes the writer.
func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
