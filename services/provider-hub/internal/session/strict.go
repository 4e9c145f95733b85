package session

import "svc.internal/pkg/agentwire"

// strictLocked takes a message by the rules of dialect v2: frames are numbered, answers
// have credit, and any frame that does not belong ends the connection.
func (s *Session) strictLocked(in *Inbound) *CloseReason {
	switch {
	case in.Kind == KindData:
		return s.onDataLocked(in)
	case in.Stream == 0:
		return s.onConnectionLocked(in)
	default:
		return s.onStreamLocked(in)
	}
}

// onDataLocked takes a piece of an answer.
func (s *Session) onDataLocked(in *Inbound) *CloseReason {
	st := s.streamLocked(in.Stream)
	if st == nil || !s.State().registered() {
		return protocolError("DATA is on a stream that is not open")
	}
	if why := st.countLocked(in.Seq); why != nil {
		return why
	}
	n := int64(len(in.Data))
	s.env.Counts.BytesIn.Add(n)
	if n > agentwire.MaxData {
		return protocolError("DATA carries more than 16 KiB")
	}
	if n == 0 {
		return s.chatLocked()
	}
	if !s.window.Take(n) {
		return closing(agentwire.CodeWindowExceeded, "more was sent than the connection's credit")
	}
	if st.released {
		s.usedLocked(n)
		return nil
	}
	if !st.window.Take(n) {
		s.usedLocked(n)
		return s.exceededLocked(st)
	}
	if !st.deliveredLocked(len(in.Data)) {
		s.usedLocked(n)
		st.failLocked(ErrNoRoom)
		s.releaseLocked(st, true)
		return nil
	}
	st.in = append(st.in, in.Data...)
	st.cameLocked()
	return nil
}

// streamLocked is the request with that number; nil for none. A task has a number here
// and none on the wire.
func (s *Session) streamLocked(id uint32) *Stream {
	if st := s.streams[id]; st != nil && st.task() == nil {
		return st
	}
	return nil
}

// countLocked checks a frame's number, and that the agent was sent the request.
func (st *Stream) countLocked(seq uint32) *CloseReason {
	if !st.seqIn.Follows(seq) || !st.opened {
		return protocolError("a frame of a request is missing or repeated")
	}
	return nil
}

// exceededLocked resets a stream whose agent ignores the credit. The second violation, of
// this kind or by a forged receipt, ends the connection.
func (s *Session) exceededLocked(st *Stream) *CloseReason {
	if s.violations++; s.violations > 1 {
		return closing(agentwire.CodeWindowExceeded, "more was sent than a stream's credit, again")
	}
	s.pushLocked(Outbound{Kind: OutReset, Stream: st.id, Why: &CloseReason{
		Code: agentwire.CodeWindowExceeded, Message: "more was sent than the stream's credit",
	}})
	st.failLocked(ErrReset)
	s.releaseLocked(st, false)
	return nil
}

// onConnectionLocked takes a frame of stream 0 other than DATA.
func (s *Session) onConnectionLocked(in *Inbound) *CloseReason {
	switch {
	case !s.seqIn.Follows(in.Seq):
		return protocolError("a frame of stream 0 is missing or repeated")
	case in.Kind == KindRegister:
		return s.strictRegisterLocked(in.Register)
	case !s.State().registered():
		return protocolError("the first frame must be REGISTER, and the next waits for its answer")
	}
	switch in.Kind {
	case KindHeartbeat:
		return s.strictHeartbeatLocked(in.Heartbeat)
	case KindCredit:
		return s.onCreditLocked(&s.credit, in.Credit)
	case KindDrain:
		return s.onDrainLocked()
	case KindReceipts:
		return s.onReceiptsLocked(in.Receipts)
	case KindWarmUp:
		if why := s.chatLocked(); why != nil {
			return why
		}
		s.warmedLocked(*in.WarmUp)
		return nil
	case KindDigests:
		return s.onDigestsLocked(in)
	case KindReset:
		return protocolError("the agent reported an error")
	case KindLater:
		return s.chatLocked()
	default:
		return protocolError("a frame on stream 0 is none that an agent sends there")
	}
}

// onDigestsLocked takes the reply to the fingerprint that was asked for last. The reply is
// passed over where nobody waits for it any more.
func (s *Session) onDigestsLocked(in *Inbound) *CloseReason {
	st := s.fingerprint
	if st == nil || !st.opened || st.request.Challenge.ID != in.Digests.ID {
		return protocolError("a result is of no challenge that is open")
	}
	s.fingerprint = nil
	open := s.streams[st.id] == st
	if in.Digests.faulty(st.task().(*Fingerprint)) {
		if open {
			st.failLocked(ErrBroken)
			s.forgetLocked(st)
		}
		return protocolError("a result has too many digests, or a digest that is none")
	}
	if !open {
		return s.spendLocked()
	}
	if !st.released && st.deliveredLocked(len(in.Data)) {
		st.in = append(st.in, in.Data...)
		st.cameLocked()
	} else {
		st.failLocked(ErrNoRoom)
	}
	s.concludeLocked(st, in.End)
	return s.spendLocked()
}

// strictRegisterLocked takes the first frame.
func (s *Session) strictRegisterLocked(r *Register) *CloseReason {
	switch {
	case s.State() != Connected:
		return protocolError("registered twice")
	case r.Models.TooMany:
		return Refused(s.env.Config, agentwire.CodeTooManyModels, "at most 256 models can be registered")
	case r.Fault != nil:
		return Refused(s.env.Config, r.Fault.Code, r.Fault.Text)
	}
	s.enrolLocked(r)
	return nil
}

func (s *Session) strictHeartbeatLocked(h *Heartbeat) *CloseReason {
	if why := s.chatLocked(); why != nil {
		return why
	}
	if h.Models.TooMany {
		return closing(agentwire.CodeTooManyModels, "at most 256 models can be offered")
	}
	s.heartbeat.Reset(s.limits.Silence)
	s.pushLocked(Outbound{Kind: OutHeartbeat, Ack: &Ack{Grant: Grant{Status: s.status}, Machines: s.machines}})
	changed := s.loadedLocked(h)
	changed = s.newsLocked(h.Models) || changed
	if changed {
		s.env.Registrar.Touch(s)
	}
	return nil
}

// onDrainLocked notes that the agent takes no new requests.
func (s *Session) onDrainLocked() *CloseReason {
	if why := s.chatLocked(); why != nil {
		return why
	}
	if s.moveLocked(agentDrains) {
		s.env.Registrar.Touch(s)
	}
	return nil
}

// onCreditLocked adds to a credit. A grant of 0 bytes counts with heartbeats and pings.
func (s *Session) onCreditLocked(credit *agentwire.Credit, bytes uint32) *CloseReason {
	if bytes == 0 {
		return s.chatLocked()
	}
	if why := s.spendLocked(); why != nil {
		return why
	}
	if !credit.Grant(bytes) {
		return protocolError("more credit was granted than a window can hold")
	}
	s.wake()
	return nil
}

// spendLocked spends an earned frame, or else a token of chatLocked.
func (s *Session) spendLocked() *CloseReason {
	if s.earned.spend() {
		return nil
	}
	return s.chatLocked()
}

// onStreamLocked takes a frame of a request other than DATA.
func (s *Session) onStreamLocked(in *Inbound) *CloseReason {
	st := s.streamLocked(in.Stream)
	if st == nil {
		if in.Kind == KindCredit && in.Stream <= s.last {
			return s.spendLocked() // granted before the agent saw the stream's end
		}
		return protocolError("a frame is on a stream that is not open")
	}
	if why := st.countLocked(in.Seq); why != nil {
		return why
	}
	switch in.Kind {
	case KindEnd:
		s.concludeLocked(st, in.End)
		return s.spendLocked()
	case KindReset:
		st.failLocked(ErrReset)
		s.forgetLocked(st)
		return s.spendLocked()
	case KindCredit:
		if why := s.onCreditLocked(&st.credit, in.Credit); why != nil {
			return why
		}
		s.scheduleLocked(st)
		return nil
	case KindLater:
		return s.chatLocked()
	default:
		return protocolError("a frame on a request is none that an agent sends there")
	}
}
