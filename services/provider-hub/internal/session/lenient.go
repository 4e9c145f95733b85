package session

import (
	"errors"

	"svc.internal/pkg/agentwire"
)

// lenientLocked takes a message by the rules of dialect v1: answers are correlated by
// the name of their request, nothing can be cancelled, and no answer has credit.
func (s *Session) lenientLocked(in *Inbound) *CloseReason {
	switch in.Kind {
	case KindEvent:
		return s.onEventLocked(in)
	case KindEnd:
		return s.onEndLocked(in)
	case KindWhole:
		return s.onWholeLocked(in)
	case KindWarmUp:
		return s.onWarmUpLocked(in)
	case KindVerified, KindBenchmarked:
		return s.onReplyLocked(in)
	default:
	}
	if why := s.chatLocked(); why != nil {
		return why
	}
	switch in.Kind {
	case KindRegister:
		return s.lenientRegisterLocked(in.Register)
	case KindHeartbeat:
		return s.lenientHeartbeatLocked(in.Heartbeat)
	case KindHealth:
		s.touchLocked(s.newsLocked(in.Heartbeat.Models))
		return nil
	case KindRefusal:
		if st := s.openLocked(in.Name); st != nil {
			s.concludesLocked(st, in.End)
		}
		return nil
	default: // what later agents may say
		return nil
	}
}

// openLocked is the request or task of that name. It is nil when none that is open has
// that name, or when the agent was not sent it yet.
func (s *Session) openLocked(name []byte) *Stream {
	st := s.names[string(name)]
	if st == nil || !st.opened {
		return nil
	}
	return st
}

// requestLocked is the request that a message answers. It is nil for a task, which has
// replies of its own.
func (s *Session) requestLocked(name []byte) *Stream {
	if st := s.openLocked(name); st != nil && st.task() == nil {
		return st
	}
	return nil
}

// strayLocked takes an answer to no open request, of size bytes.
func (s *Session) strayLocked(name []byte, last bool, size int64) *CloseReason {
	if s.strays.take(string(name), last) {
		return nil
	}
	state := s.State()
	if s.strays.inherits(size, state == Admitting || state == Held, s.env.Clock.Now()) {
		s.env.Counts.Strays.Add(1)
		return nil
	}
	return s.chatLocked()
}

// concludesLocked takes the agent's last word on a request.
func (s *Session) concludesLocked(st *Stream, end *End) {
	s.concludeLocked(st, end)
	s.strays.ended(st.name)
}

// onEventLocked takes a piece of a stream.
func (s *Session) onEventLocked(in *Inbound) *CloseReason {
	st := s.requestLocked(in.Name)
	if st == nil {
		return s.strayLocked(in.Name, false, in.Size)
	}
	if st.done || !st.request.Stream || in.Data == nil && !in.Done {
		return s.chatLocked()
	}
	s.env.Counts.BytesIn.Add(int64(len(in.Data)))
	st.done = in.Done
	if st.released || st.err != nil {
		return nil
	}
	if len(st.in) == 0 {
		st.chunks, st.since = 0, s.env.Clock.Now()
	}
	st.chunks++
	if st.behindLocked(len(in.Data)) {
		st.failLocked(ErrBehind)
		return nil
	}
	s.relieveLocked(int64(len(in.Data)))
	if st.err != nil {
		return nil // relieveLocked gave up this stream
	}
	before := len(st.in)
	st.in = st.appendLocked(in)
	switch added := len(st.in) - before; {
	case added == 0: // the end mark of a challenge
	case !st.deliveredLocked(added):
		st.in = st.in[:before]
		st.failLocked(ErrNoRoom)
	default:
		st.cameLocked()
	}
	return nil
}

// appendLocked appends a piece of a stream to the bytes that wait: as events, or for a
// challenge the chunk as it is.
func (st *Stream) appendLocked(in *Inbound) []byte {
	if st.timing != nil {
		return append(st.in, in.Data...)
	}
	all := st.in
	if in.Data != nil {
		all = appendEvent(all, in.Data)
	}
	if in.Done {
		all = append(all, doneEvent...)
	}
	return all
}

// onEndLocked takes the end of a stream.
func (s *Session) onEndLocked(in *Inbound) *CloseReason {
	st := s.requestLocked(in.Name)
	if st == nil {
		return s.strayLocked(in.Name, true, in.Size)
	}
	in.End.Complete = st.done && st.request.Stream && in.End.Error == ""
	s.concludesLocked(st, in.End)
	return nil
}

// onWholeLocked takes an answer that is not streamed.
func (s *Session) onWholeLocked(in *Inbound) *CloseReason {
	st := s.requestLocked(in.Name)
	if st == nil {
		return s.strayLocked(in.Name, true, in.Size)
	}
	in.End.Complete = in.End.Error == "" && in.Data != nil && !st.request.Stream
	if in.End.Complete {
		s.env.Counts.BytesIn.Add(int64(len(in.Data)))
		if !st.released && !st.answeredLocked(in.Data) {
			st.failLocked(ErrNoRoom)
		}
	}
	s.concludesLocked(st, in.End)
	return nil
}

// replyTo is the kind of the message that replies to a task.
func replyTo(t Task) Kind {
	if _, ok := t.(*Benchmark); ok {
		return KindBenchmarked
	}
	return KindVerified
}

// maxTaskReply bounds the reply to a task, in bytes.
const maxTaskReply = 1 << 20

// onReplyLocked takes the reply to a task. A reply that names another challenge, or that
// is of another kind, is an answer to nobody.
func (s *Session) onReplyLocked(in *Inbound) *CloseReason {
	st := s.openLocked(in.Name)
	if st == nil || st.task() == nil || replyTo(st.task()) != in.Kind || st.request.Challenge.ID != string(in.Challenge) {
		return s.strayLocked(in.Name, true, in.Size)
	}
	s.env.Counts.BytesIn.Add(int64(len(in.Data)))
	if len(in.Data) > maxTaskReply {
		st.failLocked(ErrBroken)
	} else if !st.released && !st.answeredLocked(in.Data) {
		st.failLocked(ErrNoRoom)
	}
	s.concludesLocked(st, in.End)
	return nil
}

// onWarmUpLocked takes the outcome of a warm-up. It passes each outcome on once.
func (s *Session) onWarmUpLocked(in *Inbound) *CloseReason {
	id, asked := s.warmups[string(in.Name)]
	if !asked {
		return s.strayLocked(in.Name, true, in.Size)
	}
	delete(s.warmups, string(in.Name))
	in.WarmUp.Model = id
	s.warmedLocked(*in.WarmUp)
	return nil
}

// lenientRegisterLocked takes a registration: the first registration, or a registration
// that replaces the models.
func (s *Session) lenientRegisterLocked(r *Register) *CloseReason {
	s.reply = r.Reply
	switch {
	case r.Models.TooMany:
		return Refused(s.env.Config, agentwire.CodeTooManyModels, "at most 256 models can be registered")
	case s.State() != Connected:
		s.registeredAgainLocked(r)
		return nil
	case r.Fault != nil:
		return Refused(s.env.Config, r.Fault.Code, r.Fault.Text)
	}
	s.enrolLocked(r)
	return nil
}

// registeredAgainLocked replaces the models. A session that is registered answers at
// once. Before that, only the newest registration is answered.
func (s *Session) registeredAgainLocked(r *Register) {
	changed := s.newsLocked(r.Models)
	if !s.State().registered() {
		return
	}
	s.welcomeLocked(Grant{Warning: warned(s.cutsLocked(), s.barredLocked())}, nil)
	s.touchLocked(s.machineLocked(r.Hardware, 0) || changed)
}

func (s *Session) lenientHeartbeatLocked(h *Heartbeat) *CloseReason {
	if !s.State().registered() {
		return nil // an answer would make the agent believe that it is registered
	}
	if h.Models.TooMany {
		return Refused(s.env.Config, agentwire.CodeTooManyModels, "at most 256 models can be offered")
	}
	s.heartbeat.Reset(s.limits.Silence)
	s.pushLocked(Outbound{Kind: OutHeartbeat, Name: h.Reply})
	changed := s.newsLocked(h.Models)
	changed = s.machineLocked(h.Hardware, h.MemoryMB) || changed
	changed = s.loadedLocked(h) || changed
	s.touchLocked(changed)
	return nil
}

// touchLocked reports a change to the registrar, once the session is registered.
func (s *Session) touchLocked(changed bool) {
	if changed && s.State().registered() {
		s.env.Registrar.Touch(s)
	}
}

// unreadableLocked ends the connection for a message that cannot be read. It holds the
// socket for a registration, and for any message of an agent that is not registered,
// because the agent would dial again at once and send the same.
func (s *Session) unreadableLocked(err error) *CloseReason {
	var m *Malformed
	registration := errors.As(err, &m) && m.Registration
	if registration {
		s.reply = m.Reply
	}
	if registration || !s.State().registered() {
		return Refused(s.env.Config, agentwire.CodeProtocolError, err.Error())
	}
	return protocolError(err.Error())
}

// discardedLocked notes a message for which the hub had no room. Of a registered agent,
// only the request that the message answers fails. Otherwise the connection ends.
func (s *Session) discardedLocked(name []byte, size int64) *CloseReason {
	if !s.State().registered() {
		return Refused(s.env.Config, agentwire.CodeTryLater, "the hub has no room for a large registration now")
	}
	st := s.openLocked(name)
	if st == nil {
		return s.strayLocked(name, true, size)
	}
	st.failLocked(ErrNoRoom)
	if !st.request.Stream {
		s.forgetLocked(st)
		s.strays.ended(st.name) // no more of the answer follows
	}
	return nil
}
