// Package chainaudit compares what settlement has stored with chains, as their RPCs say together: nonces,
// transactions that ended, payouts that arrived, positions, events, deposits, and reserves. It changes nothing.
//
// All RPCs of a chain are asked, and must agree. Where two disagree, or an RPC is silent, the result of a check is not
// known, which is neither sound nor drift. RPCs that lie together are believed. A run with other RPCs
// (settlement verify -rpc) finds their lie. It implements settlement.md, section 13.
package chainaudit

import (
	"context"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/reserve"
	"svc.internal/services/settlement/internal/sending"
)

// page bounds the rows that are compared at once.
const page = 100

// Node reads a chain, as package evm does.
type Node interface {
	reserve.Node
	// Receipts returns the receipts of transactions up to a final block; nil for one that no RPC has there.
	Receipts(ctx context.Context, txs []chain.Hash, final chain.Block) ([]*chain.Receipt, error)
	// Blocks returns blocks, with their transactions where they are asked for.
	Blocks(ctx context.Context, from, to uint64, transactions bool) ([]chain.Block, error)
	// CallAt makes a call at a block.
	CallAt(ctx context.Context, call chain.Call, block chain.Block) ([]byte, error)
}

// Sender is an address that sends, with the nonce of its next call.
type Sender struct {
	Address chain.Address
	Next    uint64
}

// Ended is a call that ended.
type Ended struct {
	Call    sending.Call
	Raw     []byte
	Cancels bool
	End     sending.End
	// Others are the other transactions of the nonce, by hash and whether they cancel.
	Others []sending.Signed
	// Payout is the id of the payout that the call paid; empty for none. Its row promised Paid to PaidTo.
	Payout string
	PaidTo chain.Address
	Paid   chain.Amount
}

// Position is a position of the collateral contract.
type Position struct {
	Subject      [32]byte
	Depositor    chain.Address
	Free, Escrow chain.Amount
}

// Log is a log that was stored, by its place in its receipt.
type Log struct {
	Number   int64
	Tx       chain.Hash
	Place    int
	Contract chain.Address
	Topics   []chain.Hash
	Data     []byte
}

// Deposit is a transfer that the books have.
type Deposit struct {
	Tx     chain.Hash
	Place  int
	Kind   chain.Kind
	To     chain.Address
	Amount chain.Amount
}

// Rows are settlement's own.
type Rows interface {
	reserve.Rows
	// Nonces returns the senders of a chain.
	Nonces(ctx context.Context, id chain.ID) ([]Sender, error)
	// Ended lists calls that ended behind a place, by place.
	Ended(ctx context.Context, id chain.ID, behind sending.Place, limit int) ([]Ended, error)
	// Waiting lists calls without an end.
	Waiting(ctx context.Context, id chain.ID, limit int) ([]sending.Status, error)
	// Positions returns all positions with what they come to, on one view.
	Positions(ctx context.Context, id chain.ID) ([]Position, reserve.Staked, error)
	// Events lists logs of the collateral contract behind a number that the chain is not known to have lost.
	Events(ctx context.Context, id chain.ID, behind int64, limit int) ([]Log, error)
	// Deposits lists transfers that are in the books behind one, by transaction and place. Those that a balance showed are
	// left out.
	Deposits(ctx context.Context, id chain.ID, behind Deposit, limit int) ([]Deposit, error)
	// Booked returns the units of each token that settlement has told the books of.
	Booked(ctx context.Context, cfg chain.Config) (map[string]int64, error)
}

// Auditor compares one chain.
type Auditor struct {
	Rows   Rows
	Node   Node
	Config chain.Config
	// Decode reads the bytes of a signed transaction.
	Decode func(raw []byte) (chain.Sent, error)
}
