// Package watch follows a chain: it reads final blocks in order and stores what arrived at deposit addresses and what
// the collateral contract logged.
//
// One watcher at a time follows a chain. It holds the chain's lock, and its writes carry the fence that it took with
// the lock, so one that lost the lock without knowing it writes nothing any more. What a window of blocks brought and
// the cursor behind the window are committed together: a watcher that dies at any moment leaves whole windows.
//
// Only final blocks count: those that all RPCs call final, with one hash, each naming the one before it. A day later
// every block is read a second time, because RPCs may forget logs; what the second reading finds is stored as well,
// with its place on the chain, by which it counts.
// When a block that was final has another hash, the chain halts (chain_halt): nothing is credited or paid on it until
// an operator names the block that counts; see Lifter.
package watch

import (
	"context"
	"errors"
	"time"

	"svc.internal/services/settlement/internal/chain"
)

// MaxWindow bounds the blocks that are read and committed at once.
const MaxWindow = 2_000

// Reader reads a chain: *evm.Chain.
type Reader interface {
	ID() chain.ID
	Head(ctx context.Context) (uint64, error)
	Final(ctx context.Context) (chain.Block, error)
	BlockAt(ctx context.Context, number uint64) (chain.Block, error)
	Blocks(ctx context.Context, from, to uint64, transactions bool) ([]chain.Block, error)
	Logs(ctx context.Context, from, to uint64, contracts []chain.Address, topics [][]chain.Hash) ([]chain.Log, error)
	FinalReceipts(ctx context.Context, txs []chain.Hash) ([]chain.Receipt, error)
	Receipt(ctx context.Context, tx chain.Hash) (r chain.Receipt, found bool, err error)
}

// Cursor is the last block whose events are stored.
type Cursor struct {
	Block uint64
	Hash  chain.Hash
	// Again is the last block of the second reading.
	Again uint64
	Fence int64
	// Halted reports that the chain is halted.
	Halted bool
}

// Key names a transfer or an event for ever: Place is its place among the logs of its transaction's receipt, and 0 of
// coins.
type Key struct {
	Chain       chain.ID
	Transaction chain.Hash
	Place       uint32
}

// Transfer is what arrived at a deposit address.
type Transfer struct {
	Key
	Block     uint64
	BlockHash chain.Hash
	At        time.Time
	// Token is its name in the books.
	Token  string
	Sender chain.Address
	// Index is that of the deposit address.
	Index  uint32
	Amount chain.Amount
	// Units are what the books count of the amount, and Dust the rest.
	Units int64
	Dust  chain.Amount
}

// Other is what arrived of another token at a deposit address: it is credited to nobody.
type Other struct {
	Key
	Block     uint64
	BlockHash chain.Hash
	At        time.Time
	Token     chain.Other
	Sender    chain.Address
	// Index is that of the deposit address.
	Index  uint32
	Amount chain.Amount
}

// Small is a transfer that is too small for a row of its own.
type Small struct {
	Index  uint32
	Token  string
	Amount chain.Amount
}

// Event is a log of the collateral contract.
type Event struct {
	Key
	Block     uint64
	BlockHash chain.Hash
	Index     uint64
	At        time.Time
	Contract  chain.Address
	Topics    []chain.Hash
	Data      []byte
}

// Found is what a window of blocks brought.
type Found struct {
	Transfers []Transfer
	// Others are stored once they are final.
	Others []Other
	Small  []Small
	Events []Event
}

// Window is what a commit holds: what was found, and the block behind which the next window begins.
type Window struct {
	Found
	To chain.Block
	// Again reports that it is a second reading. Small transfers are not added then, because they have no identity.
	Again bool
}

// Sight is what a look at a chain saw above its final block.
type Sight struct {
	// Head is the highest block that any RPC has, and Final the last one that all call final.
	Head, Final uint64
	// From and To are the blocks that were read; From is above To where none was.
	From, To  uint64
	Transfers []Transfer
}

// Outcome is what a commit changed.
type Outcome struct {
	Transfers, Events, Dropped int
}

// ErrFenced says that another watcher has taken the chain over.
var ErrFenced = errors.New("another watcher follows the chain")

// Store keeps what is read. One value is the hold of one watcher on one chain.
type Store interface {
	// Begin takes the next fence and returns the cursor. The first time ever it begins at first.
	Begin(ctx context.Context, id chain.ID, first chain.Block) (Cursor, error)
	// Has reports whether the chain has a cursor.
	Has(ctx context.Context, id chain.ID) (bool, error)
	// Commit stores a window and moves the cursor, in one transaction. It fails with ErrFenced under an older fence.
	Commit(ctx context.Context, id chain.ID, fence int64, w Window) (Outcome, error)
	// Current notes that the cursor is at the last final block.
	Current(ctx context.Context, id chain.ID, fence int64) error
	// Halt halts the chain: the block of the cursor has another hash.
	Halt(ctx context.Context, id chain.ID, fence int64, block uint64, was, is chain.Hash) error
	// Seen stores what people may look at: how far the chain is, and transfers above the final block. A transfer that was
	// seen in one of the blocks that were read, or above the head, and is there no longer, is dropped.
	Seen(ctx context.Context, id chain.ID, fence int64, s Sight) error
	// Addresses returns deposit addresses from an index on, in order, at most a page of them.
	Addresses(ctx context.Context, from uint32) ([]chain.Address, error)
}

// Watcher follows one chain for as long as it holds the chain's lock. It is for one goroutine.
type Watcher struct {
	Chain Reader
	Store Store
	// Config is that of the chain.
	Config chain.Config
	// Small reports whether an amount is too small for a row of its own.
	Small func(asset chain.Asset, amount chain.Amount) bool

	cursor    Cursor
	begun     bool
	addresses addressSet
	// final is the last block that all RPCs called final, and looked the last one above it that was looked at.
	final  uint64
	looked chain.Block
}

// addressSet has all deposit addresses in memory: 20 bytes and an index each.
type addressSet struct {
	index map[chain.Address]uint32
	list  []chain.Address
}

func (a *addressSet) size() int { return len(a.list) }

// load reads the addresses that are new.
func (a *addressSet) load(ctx context.Context, store Store) error {
	if a.index == nil {
		a.index = map[chain.Address]uint32{}
	}
	for {
		page, err := store.Addresses(ctx, uint32(len(a.list)))
		if err != nil || len(page) == 0 {
			return err
		}
		for _, one := range page {
			a.index[one] = uint32(len(a.list))
			a.list = append(a.list, one)
		}
	}
}
