package watch

import (
	"context"
	"fmt"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
)

// maxTouched bounds what a changed history may have touched for an operator to accept it here.
const maxTouched = 10_000

// Halt is a halted chain.
type Halt struct {
	Chain   chain.ID
	Block   uint64
	Was, Is chain.Hash
}

// Touched is a transfer or an event in a block that may not count any more.
type Touched struct {
	Key
	// Event reports that it is one of the collateral contract.
	Event bool
	// Block and Hash are where it is now; Gone reports that the chain has it no longer.
	Block uint64
	Hash  chain.Hash
	Gone  bool
}

// Lift is an operator's acceptance of a changed history.
type Lift struct {
	Halt
	// Accepted is the hash of the halted block that counts. It is what the chain has now.
	Accepted chain.Hash
	// Back is the last block on which the old history and the new one agree.
	Back    chain.Block
	Touched []Touched
	// Actor is the operator, and Reason the reason that he gives.
	Actor, Reason string
}

// ReadTo is the last block in which something that the old history had may be now: what follows the chain waits until
// it is read again so far.
func (l Lift) ReadTo() uint64 {
	to := l.Block
	for _, t := range l.Touched {
		if !t.Gone {
			to = max(to, t.Block)
		}
	}
	return to
}

// HaltStore keeps halts.
type HaltStore interface {
	// OpenHalt returns the halt of a chain.
	OpenHalt(ctx context.Context, id chain.ID) (Halt, bool, error)
	// Trace returns blocks that were stored at or below a number, the highest first, at most a page of them.
	Trace(ctx context.Context, id chain.ID, below uint64) ([]chain.Block, error)
	// TouchedAbove returns what is stored of blocks above a number, at most a limit.
	TouchedAbove(ctx context.Context, id chain.ID, above uint64, limit int) ([]Touched, error)
	// Lift ends the halt and sets the cursor back, in one transaction. What is gone is marked so, and so is each event
	// above the common block, because it is read again where it is now.
	Lift(ctx context.Context, l Lift) error
}

// Lifter lets an operator end a halt.
type Lifter struct {
	Store  HaltStore
	Chains map[chain.ID]Reader
}

// Lift ends the halt of a chain. The operator names the hash of the halted block that he accepts, which must be the
// one that all RPCs have. Reading begins again behind the last block that both histories have; what the chain has no
// longer is taken back.
func (l *Lifter) Lift(ctx context.Context, id chain.ID, accepted chain.Hash, actor, reason string) (Lift, error) {
	halt, open, err := l.Store.OpenHalt(ctx, id)
	reader := l.Chains[id]
	switch {
	case err != nil:
		return Lift{}, err
	case reader == nil:
		return Lift{}, fault.New(fault.Invalid, fault.InvalidValue, "chain %s is not configured", id)
	case !open:
		return Lift{}, fault.New(fault.Precondition, fault.TransitionNotAllowed, "chain %s is not halted", id)
	}
	now, err := reader.BlockAt(ctx, halt.Block)
	if err != nil {
		return Lift{}, unavailable(err)
	}
	if now.Hash != accepted {
		return Lift{}, fault.New(fault.Precondition, fault.TransitionNotAllowed, "block %d of chain %s has the hash %s now",
			halt.Block, id, now.Hash)
	}
	out := Lift{Halt: halt, Accepted: accepted, Actor: actor, Reason: reason}
	if out.Back, err = l.common(ctx, reader, halt.Block); err != nil {
		return Lift{}, err
	}
	if out.Touched, err = l.touched(ctx, reader, out.Back.Number); err != nil {
		return Lift{}, err
	}
	return out, l.Store.Lift(ctx, out)
}

// common returns the last stored block that the chain still has.
func (l *Lifter) common(ctx context.Context, reader Reader, below uint64) (chain.Block, error) {
	for {
		page, err := l.Store.Trace(ctx, reader.ID(), below)
		if err != nil {
			return chain.Block{}, err
		}
		for _, stored := range page {
			now, err := reader.BlockAt(ctx, stored.Number)
			if err != nil {
				return chain.Block{}, unavailable(err)
			}
			if now.Hash == stored.Hash {
				return now, nil
			}
		}
		if len(page) == 0 || page[len(page)-1].Number == 0 {
			return chain.Block{}, fault.New(fault.Precondition, fault.TransitionNotAllowed,
				"no block that was read of chain %s is there any more: it is another chain", reader.ID())
		}
		below = page[len(page)-1].Number - 1
	}
}

// touched asks the chain where everything above a block is now.
func (l *Lifter) touched(ctx context.Context, reader Reader, above uint64) ([]Touched, error) {
	list, err := l.Store.TouchedAbove(ctx, reader.ID(), above, maxTouched+1)
	if err != nil {
		return nil, err
	}
	if len(list) > maxTouched {
		return nil, fmt.Errorf("the changed history of chain %s touches more than %d rows", reader.ID(), maxTouched)
	}
	for i := range list {
		receipt, found, err := reader.Receipt(ctx, list[i].Transaction)
		switch {
		case err != nil:
			return nil, unavailable(err)
		case found && !receipt.Final:
			return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable,
				"%s waits to be final again; try later", list[i].Transaction)
		}
		list[i].Gone = !found || !receipt.Succeeded
		list[i].Block, list[i].Hash = receipt.Block, receipt.BlockHash
	}
	return list, nil
}

func unavailable(err error) error {
	return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "the chain cannot be read")
}
