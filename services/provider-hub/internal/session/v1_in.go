package session

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/jsonscan"
)

// receive implements dialect. The message is read before the session is locked.
func (d *v1) receive(msg []byte) *Closing {
	if d.s.deaf.Load() {
		return nil
	}
	m, err := readV1(msg)
	if err != nil {
		return d.unreadable("a message cannot be read: " + err.Error())
	}
	switch kind := plain(m.kind); string(kind) {
	case "stream_chunk":
		return d.locked(func() *Closing { return d.onChunk(&m) })
	case "stream_end":
		return d.locked(func() *Closing { return d.onStreamEnd(&m) })
	case "ack":
		return d.locked(func() *Closing { return d.onAck(&m) })
	}
	if len(msg) > v1MaxNews {
		return protocolError("a message is too large for what it says")
	}
	return d.news(&m)
}

// unreadable ends the connection. An agent that is not registered would dial again
// at once, and say the same.
func (d *v1) unreadable(what string) *Closing {
	if !d.s.wasLive() {
		return d.s.refused(CodeProtocolError, what)
	}
	return protocolError(what)
}

// locked runs what needs the mutex, unless the connection is closing.
func (d *v1) locked(f func() *Closing) *Closing {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.s.phase >= phaseClosing {
		return nil
	}
	return f()
}

// news takes what is no answer. Much of it is decoded, which is done before the
// session is locked.
func (d *v1) news(m *v1Message) *Closing {
	id := ""
	if len(m.id) <= maxRequestID {
		id = text(m.id)
	}
	var take func() *Closing
	var err error
	switch string(plain(m.kind)) {
	case "register":
		var r v1Register
		if err = decode(m.payload, &r); err != nil {
			return d.malformed(id, err)
		}
		take = func() *Closing { return d.register(id, &r) }
	case "heartbeat":
		var h v1Heartbeat
		err = decode(m.payload, &h)
		take = func() *Closing { return d.onHeartbeat(id, &h) }
	case "model_health_update":
		var h v1Heartbeat
		err = decode(m.payload, &h)
		take = func() *Closing { return d.onHealth(&h) }
	case "error":
		take = func() *Closing { return d.onError(m) }
	default: // verify, benchmark_response, and what later agents may say
		take = func() *Closing { return nil }
	}
	if err != nil {
		return d.unreadable("a message cannot be read")
	}
	return d.locked(func() *Closing {
		if why := d.s.chat(); why != nil {
			return why
		}
		return take()
	})
}

// malformed refuses a registration that is none, and names the member.
func (d *v1) malformed(id string, err error) *Closing {
	what := "the registration cannot be read"
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		what += ": " + wrong.Field + " is of the wrong type"
	}
	return d.locked(func() *Closing {
		d.registration = id
		return d.s.refused(CodeProtocolError, what)
	})
}

// maxRequestID bounds a request_id that is repeated to the agent, in bytes.
const maxRequestID = 256

func decode(payload []byte, into any) error {
	if payload == nil {
		return errNotEnvelope
	}
	return json.Unmarshal(payload, into)
}

// request is what a message answers; nil when it is nobody's, or of one who does
// not know of it yet. Needs the mutex.
func (d *v1) request(raw []byte) *v1Stream {
	st := d.requests[string(plain(raw))]
	if st == nil || !st.opened {
		return nil
	}
	return st
}

// stray takes an answer of so many bytes that nothing open asks for. Needs the
// mutex.
func (d *v1) stray(raw []byte, last bool, size int64) *Closing {
	name := string(plain(raw))
	most := d.late[name]
	if most == 0 {
		if d.inherited(size) {
			return nil
		}
		return d.s.chat()
	}
	if d.late[name]--; last || most == 1 {
		delete(d.late, name)
	}
	return nil
}

// inherited reports whether an answer may be that of a request of an earlier
// connection, which the agent goes on sending. It counts for nothing, because the
// agent does what agents do, and closing the connection would only have it sent
// on the next. Needs the mutex.
func (d *v1) inherited(size int64) bool {
	s := d.s
	registering := s.phase == phaseAdmitting
	if !registering && !s.house.clock.Now().Before(d.strayUntil) || d.strayed+size > v1StrayBytes {
		return false
	}
	d.strayed += size
	s.house.counts.Strays.Add(1)
	return true
}

// concludes is the agent's last word on a request. Needs the mutex.
func (d *v1) concludes(st *v1Stream, end End) {
	d.s.conclude(&st.Stream, end)
	delete(d.late, st.name)
}

// onChunk takes a piece of a stream. Needs the mutex.
func (d *v1) onChunk(m *v1Message) *Closing {
	st := d.request(m.id)
	if st == nil {
		return d.stray(m.id, false, int64(m.size))
	}
	if st.done || !st.streams() {
		return d.s.chat()
	}
	ends := isTrue(m.done)
	if !present(m.chunk) && !ends {
		return d.s.chat()
	}
	d.s.house.counts.received(int64(len(m.chunk)))
	st.done = ends
	if st.released || st.err != nil {
		return nil
	}
	if len(st.in) == 0 {
		st.chunks, st.since = 0, d.s.house.clock.Now()
	}
	st.chunks++
	if d.behind(st, len(m.chunk)) {
		st.fail(ErrBehind)
		return nil
	}
	d.s.relieve(int64(len(m.chunk)))
	if st.err != nil {
		return nil // it was this one
	}
	before := len(st.in)
	if present(m.chunk) {
		st.in = appendEvent(st.in, m.chunk)
	}
	if ends {
		st.in = append(st.in, doneEvent...)
	}
	if !st.delivered(len(st.in) - before) {
		st.in = st.in[:before]
		st.fail(ErrNoRoom)
	}
	return nil
}

// behind reports whether more would wait than a stream may hold.
// Chunks that come at once, behind a pause of the network, are no sign of a slow
// consumer: they only count as one when they are very many, or when nobody has
// taken any for a while.
func (d *v1) behind(st *v1Stream, n int) bool {
	switch {
	case len(st.in)+n > v1Held, st.chunks > v1Burst:
		return true
	case st.chunks > v1Chunks:
		return d.s.house.clock.Now().Sub(st.since) > v1Patience
	default:
		return false
	}
}

// streams reports whether the answer was asked for as a stream.
func (st *v1Stream) streams() bool { return st.request.Stream }

// onStreamEnd needs the mutex.
func (d *v1) onStreamEnd(m *v1Message) *Closing {
	st := d.request(m.id)
	if st == nil {
		return d.stray(m.id, true, int64(m.size))
	}
	end := endOf(m)
	end.Complete = st.done && st.streams() && end.Error == ""
	d.concludes(st, end)
	return nil
}

// onAck takes a whole answer, or what became of a warm-up: agents call both the
// same, and only what was asked tells them apart. Needs the mutex.
func (d *v1) onAck(m *v1Message) *Closing {
	s := d.s
	if model, ok := d.warmups[string(plain(m.id))]; ok {
		delete(d.warmups, string(plain(m.id)))
		d.onWarmup(model, m)
		return nil
	}
	st := d.request(m.id)
	if st == nil {
		return d.stray(m.id, true, int64(m.size))
	}
	end := endOf(m)
	if end.Error == "" && present(m.response) && !st.streams() {
		end.Complete = true
		s.house.counts.received(int64(len(m.response)))
		if !st.released {
			// It does not count as the session's, which would be its neighbours'
			// loss. Until it is taken only the slots bound it, with one message
			// each; a whole answer is taken at once, and counted from there.
			st.in = append(st.in, m.response...)
		}
	}
	d.concludes(st, end)
	return nil
}

// onWarmup takes what can be read of an answer to a warm-up: nothing in it is
// worth the connection. Needs the mutex.
func (d *v1) onWarmup(model string, m *v1Message) {
	var r struct {
		Success    json.RawMessage `json:"success"`
		LoadTimeMS number          `json:"load_time_ms"`
	}
	_ = decode(m.payload, &r) // then it was no success
	ms := min(max(float64(r.LoadTimeMS), 0), float64(time.Hour.Milliseconds()))
	d.s.warmed(Warmed{Model: model, Success: isTrue(r.Success), LoadTime: time.Duration(ms) * time.Millisecond, Error: text(m.failure)})
}

// onError takes an agent's refusal of a request. Its code is the agent's own and
// no engine's status: another provider may well serve the request. Needs the
// mutex.
func (d *v1) onError(m *v1Message) *Closing {
	st := d.request(m.id)
	if st == nil {
		return nil
	}
	var r struct {
		Message json.RawMessage `json:"message"`
	}
	_ = decode(m.payload, &r) // then it says nothing
	what := text(r.Message)
	if what == "" {
		what = v1Failure
	}
	d.concludes(st, End{Error: what})
	return nil
}

// v1Failure stands for an error without a text.
const v1Failure = "the agent reports an error"

// discarded implements dialect: only the request that a message was for fails.
func (d *v1) discarded(head []byte, size int64) *Closing {
	id, _ := headID(head)
	return d.locked(func() *Closing {
		if d.s.phase != phaseLive {
			return d.s.refused(CodeTryLater, "the hub has no room for a large registration now")
		}
		st := d.request(id)
		if st == nil {
			return d.stray(id, true, size)
		}
		st.fail(ErrNoRoom)
		if !st.streams() {
			d.s.forget(&st.Stream)
			delete(d.late, st.name) // that was all of it
		}
		return nil
	})
}

// Agents begin an engine's error with this and the status.
const v1ErrorPrefix = "model server returned HTTP "

// What agents say that have no slot of their own free.
var v1Busy = [...]string{"provider rate limit exceeded", "provider concurrency limit"}

// endOf reads how an answer ended, but for whether it is complete.
func endOf(m *v1Message) End {
	message, status := text(m.failure), 0
	failed := present(m.failure) && string(m.failure) != `""`
	if rest, ok := strings.CutPrefix(message, v1ErrorPrefix); ok {
		if number, what, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				message, status = what, n
			}
		}
	}
	if n, err := jsonscan.Int(m.status); err == nil && n > 0 && n < 1000 {
		status = int(n)
	}
	if failed && message == "" {
		message = v1Failure
	}
	if status == 0 && message == "" {
		status = 200
	}
	end := End{Status: status, Error: message}
	for _, text := range v1Busy {
		end.Busy = end.Busy || status == 429 && strings.HasPrefix(message, text)
	}
	return end
}
