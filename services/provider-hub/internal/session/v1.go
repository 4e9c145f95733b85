package session

import (
	"strconv"
	"time"

	"svc.internal/pkg/jsonscan"
)

// Sizes of dialect v1, in bytes.
const (
	// v1MaxFrame is what agents take: they drop the connection, with all that
	// is under way on it, over a frame that is larger.
	v1MaxFrame = 1 << 20
	// v1Envelope is more than an inference has around its body: names of at most
	// 200 characters, ids of less than 64, and some 120 of JSON.
	v1Envelope = 1 << 10
	// v1MaxAnswer bounds a message once the agent is registered: a whole answer
	// is one. v1MaxNews bounds those that are no answer.
	v1MaxAnswer = 16 << 20
	v1MaxNews   = 1 << 20
	// v1Anonymous bounds a message of a socket that is not registered: it carries
	// every model with its hashes.
	v1Anonymous = 128 << 10
)

// Bounds of a v1 session.
const (
	v1Streams = 50
	// v1Held bounds what waits on a stream to be taken, in bytes, v1Burst the
	// chunks, and v1Chunks those that nobody took for v1Patience.
	v1Held     = 1 << 20
	v1Burst    = 1024
	v1Chunks   = 256
	v1Patience = time.Second
	// v1Late bounds the messages of a request that lost its slot before it had
	// ended: agents count their time from when they begin, not from when they are
	// asked.
	v1Late = 4096
	// v1StrayFor is how long behind its registration an agent may still send what
	// its engines say of requests of an earlier connection, which is as long as
	// agents let a stream run. v1StrayBytes bounds how much of it is passed over
	// without being counted, in bytes: 50 streams of some 4 KiB a second.
	v1StrayFor   = 5 * time.Minute
	v1StrayBytes = 64 << 20
)

// v1 is dialect v1: JSON, one object to a message, correlated by request_id.
// Nothing in it can be cancelled and nothing has credit.
type v1 struct {
	s *Session

	// registration is the request_id that the registration is answered with.
	registration string
	requests     map[string]*v1Stream
	late         map[string]int    // of requests that lost their slot before they had ended, how much may still come
	warmups      map[string]string // the model by request_id
	asked        uint64            // warm-ups so far
	// strayUntil is when answers to nobody begin to count; the zero time stands
	// for now. strayed is how many bytes of them did not count.
	strayUntil time.Time
	strayed    int64

	control []*v1Frame
	pending []*v1Stream // not sent yet
}

// v1Stream is a stream with what arrived on it.
type v1Stream struct {
	Stream
	name   string // its request_id
	chunks int    // that wait to be taken
	since  time.Time
	done   bool // the end mark was seen
	sentAt time.Time
}

// speakV1 begins dialect v1 on a session.
func speakV1(s *Session) (dialect, terms) {
	d := &v1{s: s, requests: map[string]*v1Stream{}, late: map[string]int{}, warmups: map[string]string{}}
	c := s.cfg.V1
	return d, terms{
		name: "v1", opcode: opText, anonymous: v1Anonymous, registered: v1MaxAnswer, news: v1MaxNews,
		streams: v1Streams, capacity: v1Streams, silence: c.SessionTimeout, patience: c.Patience,
		minAge: c.MinAge, total: c.MaxTotal, warmups: true, paced: true, lasting: true,
	}
}

func (d *v1) at(st *Stream) *v1Stream { return st.wire.(*v1Stream) }

// check implements dialect. The body becomes a part of the frame, so that it
// must be JSON, or it could be taken for more than a body; and text, or the
// agent might drop the connection.
func (d *v1) check(r *Request) error {
	if len(r.Body) > v1MaxFrame-v1Envelope {
		return ErrTooLarge
	}
	strict := jsonscan.Options{MaxDepth: v1Options.MaxDepth, RefuseInvalidUTF8: true}
	if jsonscan.New(r.Body, strict).Valid() != nil {
		return ErrNotSendable
	}
	return nil
}

// open implements dialect.
func (d *v1) open(id uint32, r Request) *Stream {
	st := &v1Stream{Stream: d.s.newStream(id, r), name: r.RequestID + "-" + strconv.FormatUint(uint64(id), 10)}
	st.wire = st
	d.requests[st.name] = st
	d.pending = append(d.pending, st)
	return &st.Stream
}

// passed implements dialect: nobody is told.
func (d *v1) passed(*Stream, int64) {}

// cancel implements dialect: agents know no such thing.
func (d *v1) cancel(*Stream) {}

// slot implements dialect: agents end their streams after so long themselves.
func (d *v1) slot(st *Stream) time.Duration {
	age := d.s.house.clock.Now().Sub(d.at(st).sentAt)
	return max(d.s.cfg.V1.MaxTotal-age, d.s.cfg.CancelGrace)
}

// forget implements dialect. Of a request that the agent was told of more may
// come, which is no flood.
func (d *v1) forget(st *Stream) {
	name := d.at(st).name
	delete(d.requests, name)
	if !st.opened {
		return
	}
	if len(d.late) >= v1Streams {
		for oldest := range d.late { // any of them
			delete(d.late, oldest)
			break
		}
	}
	d.late[name] = v1Late
}

// registered implements dialect.
func (d *v1) registered(g Grant, _ map[string]string) {
	d.strayUntil = d.s.house.clock.Now().Add(v1StrayFor)
	d.push(v1Ack(d.registration, true, v1Welcome(g.Warning)))
}

// v1Welcome acknowledges a registration, with what the owner should look at.
func v1Welcome(warning string) string {
	const message = "registered successfully"
	if warning == "" {
		return message
	}
	return message + ": " + warning
}

// drain implements dialect: there is no way to say it.
func (d *v1) drain(time.Duration) {}

// warmUp implements dialect.
func (d *v1) warmUp(model string) {
	d.asked++
	id := "warmup-" + strconv.FormatUint(d.asked, 10)
	for old, of := range d.warmups {
		if of == model {
			delete(d.warmups, old) // it was never answered
		}
	}
	d.warmups[id] = model
	d.push(v1Warmup(id, model))
}

// push queues a message that is no request. Needs the mutex.
func (d *v1) push(f *v1Frame) {
	if d.s.phase >= phaseClosing || d.s.full(len(d.control)) {
		return
	}
	d.control = append(d.control, f)
	d.s.signal()
}

// clear implements dialect.
func (d *v1) clear() { d.control, d.pending = nil, nil }

// fill implements dialect: what is no request first.
func (d *v1) fill(o *outbox) {
	room := batchBytes
	for _, f := range d.control {
		o.frames = append(o.frames, f)
		room -= f.size()
	}
	d.control = nil
	n := 0
	for ; n < len(d.pending) && room > 0; n++ {
		st := d.pending[n]
		if d.requests[st.name] != st {
			continue // given up before the agent heard of it
		}
		st.opened, st.sentAt = true, d.s.house.clock.Now()
		f := v1Inference(st.name, d.s.identity.ProviderID.String(), st.request.Model, st.request.Body, st.request.Stream)
		st.stopSending()
		o.frames = append(o.frames, f)
		room -= f.size()
	}
	d.pending = shift(d.pending, n)
	o.more = len(d.pending) > 0
}

// farewell implements dialect.
func (d *v1) farewell(o *outbox, why *Closing) {
	o.hold, o.status = why.Hold, why.status
	code, status := v1Codes(why.Code)
	if o.status == 0 {
		o.status = status
	}
	if code == 0 || why.bare {
		return
	}
	o.frames = append(o.frames, v1Error(d.registration, code, why.Message))
	if refusesAgent(code) || why.ReconnectAfter > 0 && why.Code != CodeTryLater {
		o.hold = max(o.hold, d.s.cfg.V1.RefuseHold)
	}
}

// v1Codes are the code of the error message, 0 for none, and the status of the
// close frame.
func v1Codes(code string) (number int, status uint16) {
	switch code {
	case CodeShuttingDown:
		return 0, statusServiceRestart
	case CodeInvalidKey, CodeKeyRevoked:
		return 401, statusPolicy
	case CodeSuspended:
		return 403, statusPolicy
	case CodeSuperseded:
		return 409, statusPolicy
	case CodeTooManySessions:
		return 429, statusTryLater
	case CodeTryLater:
		return 503, statusTryLater
	default:
		return 400, statusPolicy
	}
}

// refusesAgent reports whether an agent that dials again at once would be refused
// again.
func refusesAgent(code int) bool {
	switch code {
	case 401, 403, 409, 429:
		return true
	default:
		return false
	}
}
