package chain

import (
	"errors"
	"fmt"
	"time"
)

// The ways in which reading a chain fails.
var (
	// ErrDisagree says that the RPCs of a chain give different answers. Nothing is known then.
	ErrDisagree = errors.New("the RPCs disagree")
	// ErrUnavailable says that an RPC did not answer, or not with what it was asked for.
	ErrUnavailable = errors.New("an RPC is not available")
	// ErrRefused says that every RPC that answered refused a transaction.
	ErrRefused = errors.New("the RPCs refuse the transaction")
)

// Revert says that a call failed in the contract.
type Revert struct {
	// Reason is the text of the contract, or empty.
	Reason string
	// Data is all that the contract returned, for errors that have a name of their own.
	Data []byte
}

// Error returns the reason.
func (r *Revert) Error() string {
	if r.Reason == "" {
		return fmt.Sprintf("the call is reverted (%d bytes)", len(r.Data))
	}
	return fmt.Sprintf("the call is reverted: %.200q", r.Reason)
}

// Block is a block of a chain.
type Block struct {
	Number       uint64
	Hash, Parent Hash
	At           time.Time
	// Transactions are those of the block, in order, where they were asked for.
	Transactions []Transaction
}

// Transaction is a transaction in a block, as far as coins move by it.
type Transaction struct {
	Hash     Hash
	From, To Address
	// Creates reports that the transaction has no recipient.
	Creates bool
	Value   Amount
}

// Log is an event of a contract.
type Log struct {
	Block           uint64
	BlockHash       Hash
	Transaction     Hash
	Index           uint64 // its place among the logs of the block
	Contract        Address
	Topics          []Hash
	Data            []byte
	TransactionRank uint64 // the place of its transaction in the block
}

// Receipt is what a transaction has come to.
type Receipt struct {
	Transaction, BlockHash Hash
	Block                  uint64
	From                   Address
	// Succeeded reports that the status is 1.
	Succeeded bool
	GasUsed   uint64
	// GasPrice is what a unit of gas cost, in wei.
	GasPrice Amount
	// L1Fee is what chain 8453 takes beside the gas, in wei; elsewhere zero.
	L1Fee Amount
	// Logs are all logs of the transaction. Of a log its place here never changes, while its index in the block does when
	// the transaction is mined again.
	Logs []Log
	// Final reports that the block is final.
	Final bool
}

// Cost returns what the transaction cost its sender beside its value, in wei.
func (r Receipt) Cost() (Amount, bool) {
	gas, ok := r.GasPrice.MulDiv(r.GasUsed, 1)
	if !ok {
		return Amount{}, false
	}
	return gas.Add(r.L1Fee)
}

// Sent is what a signed transaction says, and who signed it. To is zero where it makes a contract.
type Sent struct {
	Hash   Hash
	Chain  ID
	Sender Address
	Nonce  uint64
	To     Address
	Value  Amount
	Data   []byte
}

// Call is a call of a contract, or a transfer of coins.
type Call struct {
	From, To Address
	Value    Amount
	Data     []byte
}

// Fees are what a transaction offers for a unit of gas, in wei.
type Fees struct {
	// Max is at least Tip.
	Max, Tip Amount
}

// Outcome is what became of a broadcast.
type Outcome string

// The outcomes.
const (
	// Accepted: an RPC has taken the transaction, or had it already.
	Accepted Outcome = "accepted"
	// NonceUsed: a transaction with the nonce is mined already, and no RPC knows this one.
	NonceUsed Outcome = "nonce_used"
	// Underpriced: another transaction with the nonce waits, or the pool is full, and the fees are too low.
	Underpriced Outcome = "underpriced"
	// Unfunded: the sender has not the coins for value and gas.
	Unfunded Outcome = "unfunded"
)

// Found is a transaction that was found in a block.
type Found struct {
	Hash Hash
	// Raw are its bytes, which prove by their signature that From sent it.
	Raw   []byte
	From  Address
	Nonce uint64
	To    Address
	// Creates reports that the transaction has no recipient.
	Creates bool
	Value   Amount
	Data    []byte
	Gas     uint64
	Fees    Fees
	// Block is the number of the block that has it, and At its time.
	Block uint64
	At    time.Time
}
