// Package sending is the one way by which settlement sends transactions: payouts, calls of the collateral contract,
// sweeps and gas.
//
// A domain prepares a request and enqueues it in the transaction that changes its own row:
//
//	prepared, err := pipeline.Prepare(ctx, sending.Request{Chain, Key, Purpose, Ref, To, Value, Data})
//	...
//	call, err := store.Enqueue(ctx, tx, prepared) // package store; ErrBusy and ErrHalted: later
//
// Then it polls the call (store.Sending.Call, by purpose and ref) in a loop of its own until the call has an End:
// succeeded, reverted or cancelled. Of one purpose and ref there is one call for ever, so enqueuing twice returns the
// first.
//
// Nothing is sent twice, by construction:
//   - Enqueue gives the call the next nonce of its sender, under the lock of the sender's row. Nonce and content stay
//     (table chain_call), and a chain mines one transaction of a nonce.
//   - The bytes of a transaction are committed (signed_tx) before they are broadcast, and only such bytes are
//     broadcast. A signature that is lost before its commit was never sent, and the next one has the same content.
//   - A higher fee changes the fee alone. The signer refuses a second content of a nonce by a record of its own.
//   - A call ends by the receipt of a final block, never by a time-out.
//   - What ended and is gone is sent again with the content and nonce that it had, or as a cancel where it did nothing
//     (Recheck).
//   - A database that lost commits is behind the nonces of the chain or the signer. Prepare sees that and halts the
//     chain (table sending_halt) until an operator lifts the halt.
package sending

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"svc.internal/services/settlement/internal/chain"
)

// Bounds.
const (
	// MaxUnmined bounds the calls of one sender that are not mined.
	MaxUnmined = 16
	// MaxWaiting bounds the calls of one pass.
	MaxWaiting = 1000
	// MaxData bounds the data of a call, in bytes.
	MaxData = 4096
	// MaxBumps bounds how often the fees of a transaction are raised.
	MaxBumps = 8
	// BumpAfter is how long a transaction waits before its fees are raised.
	BumpAfter = 10 * time.Minute
	// RecheckFor is how long the chain is asked again for transactions that ended.
	RecheckFor = 24 * time.Hour
	// maxRaw bounds the bytes of a signed transaction.
	maxRaw = 8192
	// minGas and maxGas bound the gas of a call.
	minGas, maxGas = 21_000, 10_000_000
)

// Why a request is not sent now. Each may pass.
var (
	// ErrHalted says that nothing new is sent on the chain until an operator lifts its halt.
	ErrHalted = errors.New("sending on the chain is halted")
	// ErrReserves says that no payout is sent on the chain while less is held than owed.
	ErrReserves = errors.New("less is held than owed, so nothing is paid out")
	// ErrBusy says that MaxUnmined calls of the sender are not mined.
	ErrBusy = errors.New("too many transactions of the sender wait")
	// ErrUnfunded says that the sender has not the coins for value and gas.
	ErrUnfunded = errors.New("the sender has not the coins for value and gas")
)

// PurposePayout is the purpose of payouts, which are halted where reserves are short.
const PurposePayout = "payout"

// Key names a key of the chain-signer: payout, operator, slasher, arbiter, gas, or deposit/index.
type Key string

// The keys beside those of deposits.
const (
	Payout   Key = "payout"
	Operator Key = "operator"
	Slasher  Key = "slasher"
	Arbiter  Key = "arbiter"
	Gas      Key = "gas"
)

// Deposit returns the key of a deposit address.
func Deposit(index uint32) Key { return Key(fmt.Sprintf("deposit/%d", index)) }

// Request is a call that a domain wants sent.
type Request struct {
	Chain chain.ID
	Key   Key
	// Purpose and Ref say what the call is for; of both together there is one call. A purpose has 1 to 32 letters of
	// a to z and underscores, a ref 1 to 128 bytes.
	Purpose, Ref string
	To           chain.Address
	Value        chain.Amount
	Data         []byte
}

var purposes = regexp.MustCompile(`^[a-z_]{1,32}$`)

func (r Request) check() error {
	switch {
	case !purposes.MatchString(r.Purpose):
		return fmt.Errorf("%.40q is not a purpose", r.Purpose)
	case r.Ref == "" || len(r.Ref) > 128:
		return fmt.Errorf("a ref has 1 to 128 bytes, not %d", len(r.Ref))
	case len(r.Data) > MaxData:
		return fmt.Errorf("data has at most %d bytes, not %d", MaxData, len(r.Data))
	case r.To.IsZero():
		return errors.New("nothing is sent to nobody")
	}
	return nil
}

// Prepared is a request that may be enqueued now.
type Prepared struct {
	Request
	Sender chain.Address
	Gas    uint64
	// Next is above every nonce that the chain and the signer know of the sender. A sender whose own next nonce is lower
	// has lost commits.
	Next uint64
}

// Place is the place of a call: one nonce of a sender.
type Place struct {
	Chain  chain.ID
	Sender chain.Address
	Nonce  uint64
}

// Call is a request with its nonce. It never changes.
type Call struct {
	Request
	Sender chain.Address
	Nonce  uint64
	Gas    uint64
	// Hash is that of chain, sender, nonce, destination, value and data.
	Hash chain.Hash
}

// Place returns the call's place.
func (c Call) Place() Place { return Place{c.Chain, c.Sender, c.Nonce} }

// Outcome is what became of a call.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Reverted  Outcome = "reverted"
	Cancelled Outcome = "cancelled"
)

// End is the end of a call, by the receipt of a final block.
type End struct {
	Outcome Outcome
	// Transaction is the one of the call's transactions that was mined.
	Transaction chain.Hash
	Block       uint64
	BlockHash   chain.Hash
	// Cost is what it cost beside its value, in wei.
	Cost chain.Amount
}

// Signed is a signed transaction of a call.
type Signed struct {
	Hash chain.Hash
	// Try counts the transactions of a nonce from 0.
	Try int
	// Cancels reports that the transaction does nothing but take the nonce.
	Cancels bool
	Raw     []byte
	Fees    chain.Fees
	At      time.Time
}

// Status is a call with all that came of it.
type Status struct {
	Call Call
	// Signed are its transactions, oldest first.
	Signed []Signed
	// CancelAsked reports that an operator wants the call cancelled.
	CancelAsked bool
	// End is nil until the call has ended.
	End *End
	// Now is the time of the store's clock.
	Now time.Time
}

// Last returns the newest transaction of the call.
func (s Status) Last() (Signed, bool) {
	if len(s.Signed) == 0 {
		return Signed{}, false
	}
	return s.Signed[len(s.Signed)-1], true
}

// Cause is why a chain is halted.
type Cause string

// The causes.
const (
	// NonceAhead: the chain or the signer knows a nonce that the database does not.
	NonceAhead Cause = "nonce_ahead"
	// UnknownTransaction: a final transaction with the nonce of a call is none of those that are stored.
	UnknownTransaction Cause = "unknown_transaction"
	// FinalReorged: a transaction that was final is no longer on the chain, or another of its nonce is.
	FinalReorged Cause = "final_reorged"
	// SignerRefuses: the signer has another content on record for a nonce.
	SignerRefuses Cause = "signer_refuses"
	// ByOperator: an operator has halted the chain.
	ByOperator Cause = "operator"
	// Reserves: less is held than owed (package reserve). It halts payouts, and nothing else, and is lifted by itself.
	Reserves Cause = "reserves"
)

// Causes returns every cause.
func Causes() []Cause {
	return []Cause{NonceAhead, UnknownTransaction, FinalReorged, SignerRefuses, ByOperator, Reserves}
}

// Halt is an open halt of a chain.
type Halt struct {
	Chain  chain.ID
	Cause  Cause
	Detail string
	Since  time.Time
}

// Quote is the price of a coin.
type Quote = chain.Quote

// Spent is what a call cost.
type Spent struct {
	Place
	Transaction chain.Hash
	// Cost is in wei. Units are what the books have of it, and the rest is dust.
	Cost  chain.Amount
	Units int64
	// Quote is zero until it is fixed.
	Quote Quote
	// Worthless reports that the books would have nothing of it.
	Worthless bool
}
