package session

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

const (
	// MaxChallenges bounds the challenges that hold slots of a session, so that a provider
	// keeps its capacity for consumers.
	MaxChallenges = 2
	// MaxRanges bounds the ranges of a fingerprint.
	MaxRanges = 16
	// maxTaskReply bounds the reply to a task, in bytes.
	maxTaskReply = 1 << 20
	// maxParts bounds the parts of the bytes that wait to be taken. Bytes that come after
	// so many parts belong to the last part, which then has their time.
	maxParts = 4096
)

// capFingerprint is the capability of agents that take fingerprints.
const capFingerprint = "fingerprint"

// Errors of challenges.
var (
	// ErrChallenged means that as many challenges as there may be hold slots of the
	// session.
	ErrChallenged = errors.New("session has too many challenges under way")
	// ErrBroken means that the reply to a task broke the protocol or a bound.
	ErrBroken = errors.New("the reply broke the protocol")
)

// Challenge marks a request that comes from the verifier. Such a request is opened
// whether or not the provider may serve consumers, and the times of its bytes are kept.
// In all else it is like any other request: it takes a slot, has credit, and is drained.
type Challenge struct {
	// ID is told to the agent with a task.
	ID string
	// Task is what the agent is asked; nil for an inference.
	Task Task
}

// Task is a message that is no inference: *Fingerprint, *Deterministic or *Benchmark.
type Task interface {
	// reply is the kind of the message by which agents of lenient rules reply.
	reply() Kind
}

// Fingerprint asks for digests of pieces of the model's files.
type Fingerprint struct {
	Nonce       []byte
	Ranges      []FileRange
	ChainFiles  []ChainFile
	ChainLength uint32
}

// FileRange is a piece of a file of the model, in bytes.
type FileRange struct {
	File   string
	Offset int64
	Length int32
}

// ChainFile is a file that the chain of blocks may read.
type ChainFile struct {
	File string
	Size int64
}

// Deterministic asks for the tokens of an answer at temperature 0 (v1).
type Deterministic struct {
	Prompt    string
	Seed      int64
	MaxTokens int32
}

// Benchmark asks the agent to measure itself (v1).
type Benchmark struct {
	Test    string
	Prompts []string
}

func (*Fingerprint) reply() Kind   { return KindVerified }
func (*Deterministic) reply() Kind { return KindVerified }
func (*Benchmark) reply() Kind     { return KindBenchmarked }

// Digests is an agent's reply to a fingerprint (v2).
type Digests struct {
	ID string
	// Digests are at most one more than MaxRanges, however many came. A digest of a range
	// that could not be read is empty.
	Digests [][]byte
	Chain   []byte
	Error   string
}

// faulty reports whether no honest agent sends such a reply to f.
func (d *Digests) faulty(f *Fingerprint) bool {
	wrong := func(digest []byte) bool { return len(digest) != 0 && len(digest) != sha256.Size }
	return len(d.Digests) > len(f.Ranges) || slices.ContainsFunc(d.Digests, wrong) || wrong(d.Chain)
}

// empty reports whether nothing could be read.
func (d *Digests) empty() bool {
	return len(d.Chain) == 0 && !slices.ContainsFunc(d.Digests, func(digest []byte) bool { return len(digest) > 0 })
}

// json is the reply as the caller sees it. The names and the encoding are those that
// protojson reads as a ChallengeResult of agent.v2.
func (d *Digests) json(cleanError string) []byte {
	b, err := json.Marshal(struct {
		ID      string   `json:"challenge_id"`
		Digests [][]byte `json:"digests"`
		Chain   []byte   `json:"chain_digest,omitempty"`
		Error   string   `json:"error,omitempty"`
	}{d.ID, append([][]byte{}, d.Digests...), d.Chain, cleanError})
	if err != nil {
		return nil // texts and bytes always are JSON
	}
	return b
}

// Part is a part of the bytes that were taken.
type Part struct {
	// End is where the part ends. It begins where the part before ends.
	End int
	// After is how long after the last byte of the challenge was written the part was read.
	After time.Duration
}

// timing is when the bytes of a challenge were written and read.
type timing struct {
	written, ended time.Time // zero before
	parts          []partAt  // of the bytes that wait to be taken
}

type partAt struct {
	end int
	at  time.Time
}

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
	_, fingerprint := r.Challenge.Task.(*Fingerprint)
	switch {
	case int64(body) > s.maxBody:
		return ErrTooLarge
	case s.challenges >= MaxChallenges:
		return ErrChallenged
	case s.limits.Strict && fingerprint && s.fingerprint != nil:
		return ErrBusy
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

// taskLocked sends a task, which has no body. It returns about how many bytes it sends.
func (s *Session) taskLocked(o *Outbox, st *Stream) int {
	st.sentAt = s.env.Clock.Now()
	if s.limits.Strict {
		s.earned.add(1) // the reply
	}
	s.sendLocked(o, Outbound{Kind: OutChallenge, Name: st.name, Model: st.request.Model, Open: &st.request})
	st.stopSendingLocked()
	s.flushingLocked(st)
	return s.overhead()
}

// flushingLocked notes that the last byte of a challenge is in the batch that the writer takes.
func (s *Session) flushingLocked(st *Stream) {
	if st.timing != nil {
		s.unflushed = append(s.unflushed, st)
	}
}

// flushedLocked notes that the writer has written the last batch: it comes for the next.
func (s *Session) flushedLocked() {
	if len(s.unflushed) == 0 {
		return
	}
	now := s.env.Clock.Now()
	for _, st := range s.unflushed {
		if st.timing.written.IsZero() {
			st.timing.written = now
			st.signal()
		}
	}
	s.unflushed = nil
}

// cameLocked notes that the last bytes of st.in were read now.
func (st *Stream) cameLocked() {
	t := st.timing
	if t == nil {
		return
	}
	part := partAt{end: len(st.in), at: st.session.env.Clock.Now()}
	if n := len(t.parts); n == maxParts {
		t.parts[n-1] = part
		return
	}
	t.parts = append(t.parts, part)
}

// overLocked notes when a challenge ended. One that ended before its last byte was written
// counts its times from its end, because no more of it is written.
func (st *Stream) overLocked() {
	t := st.timing
	if t == nil || !t.ended.IsZero() {
		return
	}
	t.ended = st.session.env.Clock.Now()
	if t.written.IsZero() {
		t.written = t.ended
	}
}

// TakeParts is Take for a challenge: it says of the piece when its parts were read. It
// returns nothing before the last byte of the challenge was written.
func (st *Stream) TakeParts() (piece []byte, parts []Part, end *End, err error) {
	s := st.session
	s.mu.Lock()
	t := st.timing
	if t.written.IsZero() {
		s.mu.Unlock()
		return nil, nil, nil, nil
	}
	came := t.parts
	t.parts = nil
	written := t.written
	piece, end, err = st.takeLocked()
	s.mu.Unlock()
	if len(piece) == 0 {
		return piece, nil, end, err
	}
	parts = make([]Part, len(came))
	for i, p := range came {
		parts[i] = Part{End: p.end, After: max(0, p.at.Sub(written))}
	}
	return piece, parts, end, err
}

// Times are when the last byte of a challenge was written and how long after that the
// challenge ended. They are zero before that.
func (st *Stream) Times() (written time.Time, took time.Duration) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := st.timing; t != nil && !t.written.IsZero() {
		written = t.written
		if !t.ended.IsZero() {
			took = max(0, t.ended.Sub(written))
		}
	}
	return written, took
}

// Measured notes the round trip of the connection.
func (s *Session) Measured(roundTrip time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roundTrip = roundTrip
}

// Link is what the caller of a challenge hears of the connection: the dialect, and the
// round trip that pings measured last; 0 where none was measured.
func (s *Session) Link() (dialect string, roundTrip time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.Name, s.roundTrip
}
