package chain

import (
	"context"
	"time"

	"svc.internal/pkg/money"
)

// Sending is a call of a chain's collateral contract that is to be sent. Purpose and Ref name it for ever: the same
// sending again is not sent again.
type Sending struct {
	Chain ID
	// Key is the name of the key that signs it.
	Key          string
	Purpose, Ref string
	Data         []byte
}

// SendOutcome says what became of a sending.
type SendOutcome int

// The outcomes.
const (
	// SendWaiting has no final end yet.
	SendWaiting SendOutcome = iota
	// SendDone is final, and the contract did it. Its events say what.
	SendDone
	// SendRefused will never be done: the contract refuses it, or an operator cancelled it.
	SendRefused
)

// Sender sends calls of collateral contracts.
type Sender interface {
	// Send has a call sent, and returns what became of it so far.
	Send(ctx context.Context, s Sending) (SendOutcome, error)
}

// Quote is the price of one whole token at a time.
type Quote struct {
	Rate   money.NanoUSD
	Source string
	At     time.Time
}
