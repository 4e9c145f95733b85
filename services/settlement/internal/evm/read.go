package evm

import (
	"context"
	"fmt"
	"slices"

	"svc.internal/services/settlement/internal/chain"
)

// Final returns the last final block: the lowest of those that the RPCs call final, with one hash from all.
func (c *Chain) Final(ctx context.Context) (chain.Block, error) {
	numbers, err := everyAnswer(ctx, c, "the final block", func(ctx context.Context, n *node) (uint64, error) {
		return c.finalOf(ctx, n)
	})
	if err != nil {
		return chain.Block{}, err
	}
	return c.BlockAt(ctx, slices.Min(numbers))
}

// finalOf is the number of the block that one RPC calls final.
func (c *Chain) finalOf(ctx context.Context, n *node) (uint64, error) {
	if c.cfg.Depth > 0 {
		var head quantity
		if err := n.call(ctx, &head, "eth_blockNumber"); err != nil {
			return 0, err
		}
		return uint64(head) - min(uint64(head), c.cfg.Depth), nil
	}
	var w *wireBlock
	if err := n.call(ctx, &w, "eth_getBlockByNumber", "finalized", false); err != nil {
		return 0, err
	}
	b, err := w.block(false)
	return b.Number, err
}

// Head returns the number of the highest block that any RPC has. It proves nothing.
func (c *Chain) Head(ctx context.Context) (uint64, error) {
	heads, err := everyAnswer(ctx, c, "the head", func(ctx context.Context, n *node) (uint64, error) {
		var head quantity
		err := n.call(ctx, &head, "eth_blockNumber")
		return uint64(head), err
	})
	if err != nil {
		return 0, err
	}
	return slices.Max(heads), nil
}

// BlockAt returns the block of a number, without transactions.
func (c *Chain) BlockAt(ctx context.Context, number uint64) (chain.Block, error) {
	blocks, err := c.Blocks(ctx, number, number, false)
	if err != nil {
		return chain.Block{}, err
	}
	return blocks[0], nil
}

// MaxWindow bounds the blocks that Blocks and Logs read at once.
const MaxWindow = 2_000

// Blocks returns the blocks from one number to another, both included, at most MaxWindow. Each names the one before it
// as its parent.
func (c *Chain) Blocks(ctx context.Context, from, to uint64, transactions bool) ([]chain.Block, error) {
	if from > to || to-from >= MaxWindow {
		return nil, fmt.Errorf("blocks %d to %d are not a window of at most %d", from, to, MaxWindow)
	}
	var args [][]any
	for number := from; number <= to; number++ {
		args = append(args, []any{hexNumber(number), transactions})
	}
	what := fmt.Sprintf("blocks %d to %d", from, to)
	return agree(ctx, c, what, sameBlocks, func(ctx context.Context, n *node) ([]chain.Block, error) {
		raw, err := batch[*wireBlock](ctx, n, "eth_getBlockByNumber", args)
		if err != nil {
			return nil, err
		}
		return linked(raw, from, transactions)
	})
}

// linked are the blocks of an answer, which must be those that were asked for.
func linked(raw []*wireBlock, from uint64, transactions bool) ([]chain.Block, error) {
	blocks := make([]chain.Block, len(raw))
	for i, w := range raw {
		b, err := w.block(transactions)
		if err != nil {
			return nil, err
		}
		if b.Number != from+uint64(i) || i > 0 && b.Parent != blocks[i-1].Hash {
			return nil, fmt.Errorf("%w: block %d does not follow the one before it", chain.ErrUnavailable, from+uint64(i))
		}
		blocks[i] = b
	}
	return blocks, nil
}

func sameBlocks(a, b []chain.Block) bool {
	return slices.EqualFunc(a, b, func(a, b chain.Block) bool {
		return a.Number == b.Number && a.Hash == b.Hash && a.Parent == b.Parent && a.At.Equal(b.At) &&
			slices.Equal(a.Transactions, b.Transactions)
	})
}

// Receipt returns what a transaction has come to. Above the final block opinions differ for a while: found is false as
// long as not all RPCs have it in the same block. Where one of them has it in a final block, they disagree.
func (c *Chain) Receipt(ctx context.Context, tx chain.Hash) (r chain.Receipt, found bool, err error) {
	receipts, err := everyAnswer(ctx, c, "a receipt", func(ctx context.Context, n *node) (*chain.Receipt, error) {
		return n.receipt(ctx, tx)
	})
	if err != nil || !slices.ContainsFunc(receipts, func(r *chain.Receipt) bool { return r != nil }) {
		return chain.Receipt{}, false, err
	}
	final, err := c.Final(ctx)
	if err != nil {
		return chain.Receipt{}, false, err
	}
	one, same := common(receipts, final.Number)
	switch {
	case !same:
		return chain.Receipt{}, false, fmt.Errorf("read the receipt of %s: %w", tx, chain.ErrDisagree)
	case one == nil:
		return chain.Receipt{}, false, nil
	case one.Block > final.Number:
		return *one, true, nil
	}
	at, err := c.BlockAt(ctx, one.Block)
	if err != nil {
		return chain.Receipt{}, false, err
	}
	r = *one
	r.Final = at.Hash == r.BlockHash
	return r, r.Final, nil
}

// common returns the receipt that all RPCs have; nil where they may still differ. same is false where they must not.
func common(receipts []*chain.Receipt, final uint64) (one *chain.Receipt, same bool) {
	inOne, inFinal := true, false
	for _, r := range receipts {
		inOne = inOne && r != nil && receipts[0] != nil && r.BlockHash == receipts[0].BlockHash
		inFinal = inFinal || r != nil && r.Block <= final
	}
	if !inOne {
		return nil, !inFinal
	}
	for _, r := range receipts[1:] {
		if !sameReceipt(*receipts[0], *r) {
			return nil, false
		}
	}
	return receipts[0], true
}

// receipt returns the receipt that one RPC has; nil where it has none.
func (n *node) receipt(ctx context.Context, tx chain.Hash) (*chain.Receipt, error) {
	var w *wireReceipt
	if err := n.call(ctx, &w, "eth_getTransactionReceipt", tx.String()); err != nil || w == nil {
		return nil, err
	}
	return checked(w, tx)
}

func checked(w *wireReceipt, tx chain.Hash) (*chain.Receipt, error) {
	r, err := w.receipt()
	if err != nil {
		return nil, err
	}
	if r.Transaction != tx {
		return nil, fmt.Errorf("%w: the receipt of another transaction", chain.ErrUnavailable)
	}
	return &r, nil
}

// FinalReceipts returns the receipts of transactions that are in final blocks. One that an RPC does not have is an
// error.
func (c *Chain) FinalReceipts(ctx context.Context, txs []chain.Hash) ([]chain.Receipt, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	args := make([][]any, len(txs))
	for i, tx := range txs {
		args[i] = []any{tx.String()}
	}
	same := func(a, b []chain.Receipt) bool { return slices.EqualFunc(a, b, sameReceipt) }
	return agree(ctx, c, "receipts", same, func(ctx context.Context, n *node) ([]chain.Receipt, error) {
		raw, err := batch[*wireReceipt](ctx, n, "eth_getTransactionReceipt", args)
		if err != nil {
			return nil, err
		}
		receipts := make([]chain.Receipt, len(raw))
		for i, w := range raw {
			if w == nil {
				return nil, fmt.Errorf("%w: it has no receipt of %s", chain.ErrUnavailable, txs[i])
			}
			r, err := checked(w, txs[i])
			if err != nil {
				return nil, err
			}
			receipts[i] = *r
			receipts[i].Final = true
		}
		return receipts, nil
	})
}

func sameReceipt(a, b chain.Receipt) bool {
	return a.Transaction == b.Transaction && a.BlockHash == b.BlockHash && a.Block == b.Block && a.From == b.From &&
		a.Succeeded == b.Succeeded && a.GasUsed == b.GasUsed && a.GasPrice == b.GasPrice && a.L1Fee == b.L1Fee &&
		slices.EqualFunc(a.Logs, b.Logs, sameLog)
}

func sameLog(a, b chain.Log) bool {
	return a.Block == b.Block && a.BlockHash == b.BlockHash && a.Transaction == b.Transaction && a.Index == b.Index &&
		a.Contract == b.Contract && a.TransactionRank == b.TransactionRank && slices.Equal(a.Topics, b.Topics) &&
		slices.Equal(a.Data, b.Data)
}
