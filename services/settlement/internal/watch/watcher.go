package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/services/settlement/internal/chain"
)

// Report is what a pass did.
type Report struct {
	Final  chain.Block
	Block  uint64
	Halted bool
	// Caught reports that the cursor is at the final block.
	Caught bool
	Outcome
	// Missed are what the second reading found that the first had not.
	Missed int
}

// Pass brings the cursor on by at most a window. Where the cursor is at the final block, it reads a window a second
// time if one is due.
func (w *Watcher) Pass(ctx context.Context) (Report, error) {
	final, err := w.Chain.Final(ctx)
	if err != nil {
		return Report{}, err
	}
	if err := w.begin(ctx, final); err != nil {
		return Report{}, err
	}
	w.final = final.Number
	r := Report{Final: final, Block: w.cursor.Block, Halted: w.cursor.Halted}
	if w.cursor.Halted {
		return r, w.rejoin(ctx)
	}
	// The addresses are read after the final block, so one that has received something in it is among them.
	if err := w.addresses.load(ctx, w.Store); err != nil {
		return r, err
	}
	switch changed, err := w.changed(ctx, final); {
	case err != nil:
		return r, err
	case changed:
		r.Halted = true
		return r, nil
	case final.Number <= w.cursor.Block:
		return w.caught(ctx, r)
	}
	return w.forward(ctx, r)
}

// begin takes the fence at the first pass.
func (w *Watcher) begin(ctx context.Context, final chain.Block) error {
	if w.begun {
		return nil
	}
	first := final
	switch has, err := w.Store.Has(ctx, w.Chain.ID()); {
	case err != nil:
		return err
	case !has && w.Config.FirstBlock < final.Number:
		// The cursor stands before the first block that is read.
		if first, err = w.Chain.BlockAt(ctx, w.Config.FirstBlock-min(w.Config.FirstBlock, 1)); err != nil {
			return err
		}
	}
	cursor, err := w.Store.Begin(ctx, w.Chain.ID(), first)
	if err != nil {
		return err
	}
	w.cursor, w.begun = cursor, true
	return nil
}

// rejoin looks whether the halt was lifted: then the cursor may stand elsewhere.
func (w *Watcher) rejoin(ctx context.Context) error {
	cursor, err := w.Store.Begin(ctx, w.Chain.ID(), chain.Block{})
	if err != nil {
		return err
	}
	w.cursor, w.looked = cursor, chain.Block{}
	return nil
}

// changed reports whether the block of the cursor has another hash now, and halts the chain then.
func (w *Watcher) changed(ctx context.Context, final chain.Block) (bool, error) {
	if final.Number < w.cursor.Block {
		return false, nil // an RPC is behind
	}
	now := final
	if final.Number > w.cursor.Block {
		var err error
		if now, err = w.Chain.BlockAt(ctx, w.cursor.Block); err != nil {
			return false, err
		}
	}
	if now.Hash == w.cursor.Hash {
		return false, nil
	}
	err := w.Store.Halt(ctx, w.Chain.ID(), w.cursor.Fence, w.cursor.Block, w.cursor.Hash, now.Hash)
	w.fenced(err)
	w.cursor.Halted = err == nil
	return err == nil, err
}

// forward reads and commits the next window.
func (w *Watcher) forward(ctx context.Context, r Report) (Report, error) {
	from := w.cursor.Block + 1
	to := min(r.Final.Number, w.cursor.Block+MaxWindow)
	found, last, err := w.read(ctx, from, to, w.cursor.Hash)
	if err != nil {
		return r, err
	}
	r.Outcome, err = w.Store.Commit(ctx, w.Chain.ID(), w.cursor.Fence, Window{Found: found, To: last})
	w.fenced(err)
	if err != nil {
		return r, err
	}
	w.cursor.Block, w.cursor.Hash = last.Number, last.Hash
	r.Block, r.Caught = last.Number, last.Number == r.Final.Number
	return r, nil
}

// caught notes that there is nothing new, and reads an old window again.
func (w *Watcher) caught(ctx context.Context, r Report) (Report, error) {
	if r.Final.Number < w.cursor.Block {
		// One RPC has lost blocks or is another than before. What is known stays; there is no progress.
		return r, fmt.Errorf("%w: its final block %d is below %d", chain.ErrUnavailable, r.Final.Number, w.cursor.Block)
	}
	r.Caught = true
	err := w.Store.Current(ctx, w.Chain.ID(), w.cursor.Fence)
	w.fenced(err)
	if err != nil {
		return r, err
	}
	day := uint64(24*time.Hour/w.Config.BlockTime) + 1
	if w.cursor.Block < w.cursor.Again+day {
		return r, nil
	}
	to := min(w.cursor.Block-day+1, w.cursor.Again+MaxWindow)
	if to <= w.cursor.Again {
		return r, nil
	}
	found, last, err := w.read(ctx, w.cursor.Again+1, to, chain.Hash{})
	if err != nil {
		return r, err
	}
	again, err := w.Store.Commit(ctx, w.Chain.ID(), w.cursor.Fence, Window{Found: found, To: last, Again: true})
	w.fenced(err)
	if err != nil {
		return r, err
	}
	w.cursor.Again, r.Missed = last.Number, again.Transfers+again.Events
	return r, nil
}

// fenced forgets the cursor when another watcher has it.
func (w *Watcher) fenced(err error) {
	if errors.Is(err, ErrFenced) {
		w.begun = false
	}
}

// maxLook bounds the blocks above the final one that are looked at at once.
const maxLook = 200

// Look stores what stands above the final block, for people to see. It fails harmlessly: nothing rests on it. Where a
// block that was looked at is another now, all blocks above the cursor are looked at again.
func (w *Watcher) Look(ctx context.Context) error {
	if !w.begun || w.cursor.Halted || w.addresses.size() == 0 {
		return nil
	}
	head, err := w.Chain.Head(ctx)
	if err != nil {
		return err
	}
	if err := w.recheck(ctx, head); err != nil {
		return err
	}
	from := max(w.cursor.Block, w.looked.Number) + 1
	sight := Sight{Head: head, Final: w.final, From: from, To: min(head, from+maxLook-1)}
	looked := w.looked
	if sight.From <= sight.To {
		var found Found
		if found, looked, err = w.read(ctx, sight.From, sight.To, chain.Hash{}); err != nil {
			return err
		}
		sight.Transfers = found.Transfers
	}
	err = w.Store.Seen(ctx, w.Chain.ID(), w.cursor.Fence, sight)
	w.fenced(err)
	if err == nil {
		w.looked = looked
	}
	return err
}

// recheck forgets what was looked at where the last block of it is another now, or none.
func (w *Watcher) recheck(ctx context.Context, head uint64) error {
	if w.looked.Number <= w.cursor.Block {
		return nil // it is final, and Pass has read it
	}
	if w.looked.Number > head {
		w.looked = chain.Block{}
		return nil
	}
	now, err := w.Chain.BlockAt(ctx, w.looked.Number)
	if err == nil && now.Hash != w.looked.Hash {
		w.looked = chain.Block{}
	}
	return err
}
