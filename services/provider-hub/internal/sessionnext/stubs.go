package session

import (
	"crypto/ed25519"
	"time"
)

const (
	chatterRate, chatterBurst   = 10, 100
	receiptRate, receiptBurst   = 20, 100
	receiptsRate, receiptsBurst = 200, 4096
)

func todo() { panic("step 2") }

func (s *Session) takesWarmupsLocked() bool { todo(); return false }

// Begin starts the time to register.
func (s *Session) Begin() { todo() }

// Receive takes a message. It never waits. What it returns ends the connection.
func (s *Session) Receive(in *Inbound) *CloseReason { todo(); return nil }

// Unreadable is what a message that the dialect refused leads to.
func (s *Session) Unreadable(err error) *CloseReason { todo(); return nil }

// Discarded takes a message that there was no room for: the request that it answers,
// nil for none, and its size in bytes. What it returns ends the connection.
func (s *Session) Discarded(name []byte, size int64) *CloseReason { todo(); return nil }

// Ping keeps the answer to a ping for the writer.
func (s *Session) Ping(payload []byte) *CloseReason { todo(); return nil }

// Pong tells the writer that the agent lives.
func (s *Session) Pong() *CloseReason { todo(); return nil }

// Enrolment is the credential of a registration that waits to be looked up. It is
// given out once.
func (s *Session) Enrolment() (Credential, bool) { todo(); return Credential{}, false }

// Admit makes a session live whose credential was looked up, unless it ended
// meanwhile. What it returns ends the connection.
func (s *Session) Admit(g Grant) *CloseReason { todo(); return nil }

// Next takes what is due into the outbox.
func (s *Session) Next(o *Outbox) { todo() }

// NextPong takes the pong that is due while the connection closes.
func (s *Session) NextPong(o *Outbox) { todo() }

// Drain takes no new requests, and says so to an agent that can be told, and
// when to dial again.
func (s *Session) Drain(reconnectAfter time.Duration) { todo() }

// Finish takes no new requests, lets those under way end, and then ends the
// session as Shut does. Only the first call counts.
func (s *Session) Finish(why *CloseReason) { todo() }

// Shut ends the session: its requests fail at once, messages that still arrive
// have no effect, and the agent is told why before the socket is closed. Only
// the first call counts.
func (s *Session) Shut(why *CloseReason) { todo() }

// SocketClosed notes that the socket is closed: nobody opens another request. It
// reports whether requests are under way. End follows.
func (s *Session) SocketClosed() (busy bool) { todo(); return false }

// End ends the session of a closed socket: its requests fail.
func (s *Session) End() { todo() }

// Open begins a request. It fails with ErrGone, ErrNotOffered, ErrBusy,
// ErrTooLarge or ErrNotSendable.
func (s *Session) Open(r Request) (*Stream, error) { todo(); return nil, nil }

// WarmUp asks the agent to have a model loaded; what became of it goes to the
// registrar. It fails with ErrGone, ErrNotOffered where the agent does not serve
// the model or takes no warm-ups, or ErrBusy within 5 minutes of the last one.
func (s *Session) WarmUp(id string) error { todo(); return nil }

// Examine is WarmUp for a model that routers suspect of failing here: the last one may
// be 80 seconds old.
func (s *Session) Examine(id string) error { todo(); return nil }

// ReceiptKey is what the node's receipts are signed with; nil when it sends
// none.
func (s *Session) ReceiptKey() ed25519.PublicKey { todo(); return nil }

// AckReceipts tells the agent which receipts it may forget.
func (s *Session) AckReceipts(all []Acknowledged) { todo() }

// Forged counts a receipt that no honest agent sends; the second ends the
// connection.
func (s *Session) Forged() { todo() }

// EngineModel is what the agent said that its engine calls the model, cleaned;
// empty for nothing.
func (st *Stream) EngineModel() string { todo(); return "" }

// Ready is signalled when Take has something new.
func (st *Stream) Ready() <-chan struct{} { todo(); return nil }

// Take returns what has arrived since the last call. The end comes with the
// last piece or after it; an error (ErrLost, ErrReset) comes when all that
// arrived before it was taken. Release follows every Take.
func (st *Stream) Take() (piece []byte, end *End, err error) { todo(); return nil, nil, nil }

// Release says that n bytes were passed on, which the agent may now send again,
// and gives a piece back for what arrives next. The piece need not be the one
// that the bytes came in.
func (st *Stream) Release(n int, piece []byte) { todo() }

// Probe asks for a ping now, to learn whether the agent is still there.
func (st *Stream) Probe() { todo() }

// Close says that nobody takes the answer any more. What still arrives is
// dropped. With cancel, an agent that has not ended the stream is asked to stop
// its engine; the slot stays taken until it has, or until the grace is over.
func (st *Stream) Close(cancel bool) { todo() }

// Cancel asks the agent to stop its engine, and leaves the stream open for
// what it says until its END. A request that the agent has not heard of is
// taken back instead.
func (st *Stream) Cancel() { todo() }
