package session

import (
	"errors"
	"slices"
)

// MaxChallenges bounds the challenges that hold slots of a session. A benchmark asks up to
// so many questions at once, and a reference scores the answers of several providers.
const MaxChallenges = 8

// capFingerprint is the capability of agents that take fingerprints.
const capFingerprint = "fingerprint"

// Errors of challenges.
var (
	// ErrChallenged means that as many challenges as there may be hold slots of the
	// session, or that an earlier fingerprint has no reply yet.
	ErrChallenged = errors.New("session has too many challenges under way")
	// ErrBroken means that the reply to a task broke the protocol or a bound.
	ErrBroken = errors.New("the reply broke the protocol")
)

// task is the stream's task; nil for an inference.
func (st *Stream) task() Task {
	if st.request.Challenge == nil {
		return nil
	}
	return st.request.Challenge.Task
}

// challengedLocked refuses a challenge of which the session takes no more. A consumer's
// request is never refused by it. Only one fingerprint at a time is put to a strict agent,
// and the next waits for the reply, however late the reply is.
func (s *Session) challengedLocked(r *Request, body int) error {
	if r.Challenge == nil {
		return nil
	}
	switch {
	case int64(body) > s.maxBody:
		return ErrTooLarge
	case s.challenges >= MaxChallenges:
		return ErrChallenged
	case s.limits.Strict && r.Challenge.Task != nil && s.fingerprint != nil:
		return ErrChallenged
	}
	return nil
}

// takesTaskLocked reports whether the agent takes a task.
func (s *Session) takesTaskLocked(t Task) bool {
	if s.limits.Verifies {
		return true
	}
	_, fingerprint := t.(*Fingerprint)
	return fingerprint && slices.Contains(s.caps, capFingerprint)
}

// challengeLocked notes a challenge that holds a slot from now on.
func (s *Session) challengeLocked(st *Stream) {
	if st.request.Challenge == nil {
		return
	}
	s.challenges++
	st.timing = &timing{}
	if s.limits.Strict && st.task() != nil {
		s.fingerprint = st
	}
}

// unchallengeLocked notes a challenge that has lost its slot. A reply to a fingerprint that
// the agent was sent may still come.
func (s *Session) unchallengeLocked(st *Stream) {
	if st.timing == nil {
		return
	}
	s.challenges--
	if s.fingerprint == st && !st.opened {
		s.fingerprint = nil
	}
}
