package session

import (
	"crypto/ed25519"
	"time"
)

// The bounds and constants that tests look at.
const (
	ChatterBurst    = chatterBurst
	ChatterRate     = chatterRate
	ReceiptRate     = receiptRate
	ReceiptBurst    = receiptBurst
	ReceiptsRate    = receiptsRate
	ReceiptsBurst   = receiptsBurst
	EarnedByOpen    = earnedByOpen
	EarnedByBytes   = earnedByBytes
	MaxEarned       = maxEarned
	MaxLate         = maxLate
	MaxStrayBytes   = maxStrayBytes
	MaxUntaken      = maxUntaken
	MaxChunks       = maxChunks
	ChunkPatience   = chunkPatience
	MaxContext      = maxContext
	MaxCapacity     = maxCapacity
	MaxRegion       = maxRegion
	DefaultCapacity = defaultCapacity
	DefaultBytes    = defaultRequestBytes
	WarmupPause     = warmupPause
	FreedInterval   = freedInterval
	DoneEvent       = doneEvent
	CapWarmup       = capWarmup
	CapFingerprint  = capFingerprint
	MaxParts        = maxParts
)

// Triggers are the names of the triggers, in the order of the table.
var Triggers = [triggers]string{
	enrols: "enrols", granted: "granted", agentDrains: "agentDrains", hubDrains: "hubDrains", hubHolds: "hubHolds",
	finishes: "finishes", emptied: "emptied", late: "late", shuts: "shuts", ends: "ends",
}

// Moves is the state to which a trigger leads; 0 where the trigger changes nothing.
func Moves(from State, t int) State { return table[from][t] }

// Normal is an offer within bounds.
func Normal(o Offer) Offer { return o.normal() }

// ClosingFor is the reason of a session that closes by its own rules.
func ClosingFor(code, message string) *CloseReason { return closing(code, message) }

// Held is how many bytes count as held, and of how many streams.
func (s *Session) Held() (bytes int64, holders int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, len(s.holders)
}

// Buffered is how many bytes wait on all open streams, and on the stream with the most.
func (s *Session) Buffered() (all, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		n := int64(len(st.in))
		all, most = all+n, max(most, n)
	}
	return all, most
}

// Sizes are how many models, models that left the list, names of requests, and
// requests that lost their slot are known.
func (s *Session) Sizes() (models, former, names, late int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.models), len(s.former), len(s.names), len(s.strays.late)
}

// Earned is how many earned frames the agent may still send.
func (s *Session) Earned() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.earned.frames
}

// WaitingControl is how many messages wait that are neither requests nor bodies.
func (s *Session) WaitingControl() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.control)
}

// Push queues a message as the session's own rules do.
func (s *Session) Push(m Outbound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushLocked(m)
}

// SetLast sets the last stream number given out.
func (s *Session) SetLast(n uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = n
}

// Declare adds a capability.
func (s *Session) Declare(capability string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caps = append(s.caps, capability)
}

// SetReceiptKey sets the public key of the node's receipts.
func (s *Session) SetReceiptKey(k ed25519.PublicKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiptKey = k
}

// Forget frees the slot of a stream.
func (s *Session) Forget(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(st)
}

// Lose notes a request that lost its slot.
func (s *Session) Lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays.forgotten(name)
}

// EndStrays makes answers to nobody count from now on.
func (s *Session) EndStrays() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays.until = time.Time{}
}

// InFlight is how many requests a model has, and how many the model takes.
func (s *Session) InFlight(model string) (n, capacity int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[model]
	return m.inFlight, m.offer.Capacity
}

// ID is a stream's number.
func (st *Stream) ID() uint32 { return st.id }

// Err is why a stream failed.
func (st *Stream) Err() error {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	return st.err
}

// BodyKept reports whether any part of the body is kept.
func (st *Stream) BodyKept() bool {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	return st.body != nil || st.request.Body != nil
}

// Rename gives a stream another name, as if the request had been called so.
func (st *Stream) Rename(name string) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, st.name)
	st.name = name
	s.names[name] = st
}
