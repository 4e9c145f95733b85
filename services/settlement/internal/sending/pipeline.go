package sending

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
)

// Store keeps calls. What it is told is committed when it returns, and survives a crash. Its clock is the database's.
//
// A call is added by Enqueue, which belongs to the store of the domain that asks, because it is a part of that
// domain's transaction.
type Store interface {
	// Next returns the next nonce of a sender. The sender's row is added where there is none.
	Next(ctx context.Context, id chain.ID, sender chain.Address, key Key) (uint64, error)
	// Halt halts a chain. A halt of the same cause that is open stays as it is.
	Halt(ctx context.Context, id chain.ID, cause Cause, detail string) error
	// Halted reports whether a chain has an open halt of all that is sent. One of Reserves is none.
	Halted(ctx context.Context, id chain.ID) (bool, error)
	// Waiting lists up to limit calls of a chain that have no end, oldest first.
	Waiting(ctx context.Context, id chain.ID, limit int) ([]Status, error)
	// Late lists up to limit calls that ended within RecheckFor, by place, behind one.
	Late(ctx context.Context, id chain.ID, behind Place, limit int) ([]Status, error)
	// Lifted reports whether a halt of a cause and detail was lifted.
	Lifted(ctx context.Context, id chain.ID, cause Cause, detail string) (bool, error)
	// AddSigned stores a signed transaction before it is broadcast. It fails with ErrOther where another process has
	// stored one of the same try, or the call has ended and the transaction does not agree with its end: what succeeded
	// is not cancelled, and everything else is nothing but cancelled.
	AddSigned(ctx context.Context, of Call, s Signed) error
	// AddEnd stores the end of a call. The first one stays.
	AddEnd(ctx context.Context, at Place, e End) error
	// GasDue lists up to limit ended calls whose cost is not in the books, the oldest of each chain first.
	GasDue(ctx context.Context, limit int) ([]Spent, error)
	// FixGas stores what the books will be told of a call's cost. The first stays, and is returned.
	FixGas(ctx context.Context, s Spent) (Spent, error)
	// GasPosted stores the entry of a call's cost.
	GasPosted(ctx context.Context, at Place, entry ids.EntryID) error
}

// ErrOther says that another process was first.
var ErrOther = errors.New("another process was first")

// Node is a chain, as package evm reads it.
type Node interface {
	// Final returns the last final block.
	Final(ctx context.Context) (chain.Block, error)
	// Nonce returns the number of transactions that the chain has of a sender, in final blocks and in all blocks.
	Nonce(ctx context.Context, sender chain.Address) (final, latest uint64, err error)
	// Receipt returns the receipt of a transaction; found is false where no block has it.
	Receipt(ctx context.Context, hash chain.Hash) (r chain.Receipt, found bool, err error)
	// Broadcast sends a signed transaction. A node that has it already has taken it.
	Broadcast(ctx context.Context, raw []byte) (chain.Outcome, error)
	// SuggestFees returns the fees with which a transaction is mined soon.
	SuggestFees(ctx context.Context) (chain.Fees, error)
	// EstimateGas returns the gas that a call takes now. A call that would fail is a *chain.Revert.
	EstimateGas(ctx context.Context, c chain.Call) (uint64, error)
	// Balance returns the coins of an address as of a block.
	Balance(ctx context.Context, of chain.Address, at chain.Block) (chain.Amount, error)
}

// Signer is the chain-signer.
type Signer interface {
	// Next returns the address of a key, and the nonce above the highest that it has signed for a chain.
	Next(ctx context.Context, id chain.ID, key Key) (sender chain.Address, next uint64, err error)
	// Sign signs a call, or its cancel, with fees. It fails with ErrContent where the nonce has another content, and with
	// ErrRefused where the signer's settings do not allow the call.
	Sign(ctx context.Context, c Call, cancel bool, fees chain.Fees) (Signature, error)
}

// ErrContent says that the signer has another content on record for the nonce.
var ErrContent = errors.New("the signer has another content for the nonce")

// CallNotFound is the reason of a fault about a call that there is not.
const CallNotFound fault.Reason = "call_not_found"

// ErrRefused says that the signer's own settings do not allow a call. It holds the calls behind it until the settings
// allow it, or an operator has its nonce cancelled.
var ErrRefused = errors.New("the signer does not allow the call")

// Signature is a transaction as the signer made it.
type Signature struct {
	Raw    []byte
	Hash   chain.Hash
	Sender chain.Address
	// Content is the hash of the call, as the signer computed it.
	Content chain.Hash
}

// Chain is a chain on which settlement sends.
type Chain struct {
	ID   chain.ID
	Node Node
	// MaxGasPrice bounds the fee for a unit of gas.
	MaxGasPrice chain.Amount
}

// Pipeline sends on the chains of an installation. It is safe for concurrent use, in several processes too.
type Pipeline struct {
	store  Store
	signer Signer
	chains map[chain.ID]Chain
}

// New makes a pipeline.
func New(store Store, signer Signer, chains ...Chain) *Pipeline {
	p := &Pipeline{store: store, signer: signer, chains: map[chain.ID]Chain{}}
	for _, c := range chains {
		p.chains[c.ID] = c
	}
	return p
}

// Chains returns the numbers of the pipeline's chains.
func (p *Pipeline) Chains() []chain.ID {
	var all []chain.ID
	for _, id := range []chain.ID{chain.Ethereum, chain.SVC, chain.Base} {
		if _, ok := p.chains[id]; ok {
			all = append(all, id)
		}
	}
	return all
}

func (p *Pipeline) chain(id chain.ID) (Chain, error) {
	c, ok := p.chains[id]
	if !ok {
		return Chain{}, fmt.Errorf("chain %s is not configured", id)
	}
	return c, nil
}

// Check halts a chain whose nodes or whose signer know a nonce of a key that the database does not, because the
// database has lost commits then. It returns the key's address and the lowest next nonce that is right, and fails with
// ErrHalted on a halted chain.
func (p *Pipeline) Check(ctx context.Context, id chain.ID, key Key) (sender chain.Address, next uint64, err error) {
	c, err := p.chain(id)
	if err != nil {
		return chain.Address{}, 0, err
	}
	sender, signed, err := p.signer.Next(ctx, id, key)
	if err != nil {
		return chain.Address{}, 0, fmt.Errorf("ask the signer for the next nonce: %w", err)
	}
	_, latest, err := c.Node.Nonce(ctx, sender)
	if err != nil {
		return chain.Address{}, 0, fmt.Errorf("read the nonce of the sender: %w", err)
	}
	// Read last: what is given meanwhile makes it higher, and never lower.
	own, err := p.store.Next(ctx, id, sender, key)
	if err != nil {
		return chain.Address{}, 0, err
	}
	if known := max(signed, latest); known > own {
		detail := fmt.Sprintf("key %s, %s: the database has %d, the chain %d, the signer %d", key, sender, own, latest,
			signed)
		if err := p.store.Halt(ctx, id, NonceAhead, detail); err != nil {
			return chain.Address{}, 0, err
		}
		return chain.Address{}, 0, ErrHalted
	}
	halted, err := p.store.Halted(ctx, id)
	if err != nil {
		return chain.Address{}, 0, err
	}
	if halted {
		return chain.Address{}, 0, ErrHalted
	}
	return sender, max(signed, latest), nil
}

// Prepare finds out whether a request can be sent now, and with how much gas. It fails with ErrHalted, ErrUnfunded,
// and with a *chain.Revert where the call would fail.
func (p *Pipeline) Prepare(ctx context.Context, r Request) (Prepared, error) {
	if err := r.check(); err != nil {
		return Prepared{}, err
	}
	sender, next, err := p.Check(ctx, r.Chain, r.Key)
	if err != nil {
		return Prepared{}, err
	}
	c := p.chains[r.Chain]
	block, err := c.Node.Final(ctx)
	if err != nil {
		return Prepared{}, fmt.Errorf("read the final block: %w", err)
	}
	balance, err := c.Node.Balance(ctx, sender, block)
	if err != nil {
		return Prepared{}, fmt.Errorf("read the coins of the sender: %w", err)
	}
	// Without the coins a node may call the estimate reverted.
	rest, ok := balance.Sub(r.Value)
	if !ok {
		return Prepared{}, ErrUnfunded
	}
	gas, err := estimate(ctx, c, sender, r)
	if err != nil {
		return Prepared{}, err
	}
	fees, err := c.Node.SuggestFees(ctx)
	if err != nil {
		return Prepared{}, fmt.Errorf("read the fees of the chain: %w", err)
	}
	if cost, ok := fees.Max.MulDiv(gas, 1); !ok || rest.Cmp(cost) < 0 {
		return Prepared{}, ErrUnfunded
	}
	return Prepared{Request: r, Sender: sender, Gas: gas, Next: next}, nil
}

// estimate returns the gas that is allowed for a request: a quarter above the estimate, because the state may be
// another when it is mined. What is not used is not paid. A recipient can use up whatever it is given, so what takes
// more than is possible counts as a call that fails.
func estimate(ctx context.Context, c Chain, sender chain.Address, r Request) (uint64, error) {
	gas, err := c.Node.EstimateGas(ctx, chain.Call{From: sender, To: r.To, Value: r.Value, Data: r.Data})
	if err != nil {
		return 0, fmt.Errorf("estimate the gas: %w", err)
	}
	gas = max(gas+gas/4, minGas)
	if gas > maxGas {
		return 0, &chain.Revert{Reason: fmt.Sprintf("it takes %d of gas, and at most %d is possible", gas, maxGas)}
	}
	return gas, nil
}

// StuckAfter is how long a transaction may wait before a person should look: its fees were raised by then.
const StuckAfter = BumpAfter + 5*time.Minute

// Stuck counts calls that a person should look at.
type Stuck struct {
	// Calls could not be moved on, or wait longer than they should.
	Calls int
	// Fees of so many calls cannot be raised any more.
	Fees int
	// Refused are calls that the signer does not allow.
	Refused int
}
