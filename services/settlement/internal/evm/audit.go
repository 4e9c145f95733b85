package evm

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/core/types"

	"svc.internal/services/settlement/internal/chain"
)

// Counts returns how many transactions accounts have sent as of a block, which is the next nonce of each.
func (c *Chain) Counts(ctx context.Context, accounts []chain.Address, block chain.Block) ([]uint64, error) {
	args := make([][]any, len(accounts))
	for i, a := range accounts {
		args[i] = []any{hexData(a[:]), at(block)}
	}
	return agree(ctx, c, "nonces", equalSlices[uint64], func(ctx context.Context, n *node) ([]uint64, error) {
		raw, err := batch[*quantity](ctx, n, "eth_getTransactionCount", args)
		if err != nil {
			return nil, err
		}
		counts := make([]uint64, len(raw))
		for i, q := range raw {
			if q == nil {
				return nil, fmt.Errorf("%w: it has no nonce of %s", chain.ErrUnavailable, accounts[i])
			}
			counts[i] = uint64(*q)
		}
		return counts, nil
	})
}

// Receipts returns the receipts of transactions as of a final block; nil for one that no RPC has, or only above it.
func (c *Chain) Receipts(ctx context.Context, txs []chain.Hash, final chain.Block) ([]*chain.Receipt, error) {
	args := make([][]any, len(txs))
	for i, tx := range txs {
		args[i] = []any{tx.String()}
	}
	same := func(a, b *chain.Receipt) bool { return a == b || a != nil && b != nil && sameReceipt(*a, *b) }
	equalAll := func(a, b []*chain.Receipt) bool { return slices.EqualFunc(a, b, same) }
	return agree(ctx, c, "receipts", equalAll, func(ctx context.Context, n *node) ([]*chain.Receipt, error) {
		raw, err := batch[*wireReceipt](ctx, n, "eth_getTransactionReceipt", args)
		if err != nil {
			return nil, err
		}
		receipts := make([]*chain.Receipt, len(raw))
		for i, w := range raw {
			if w == nil {
				continue
			}
			r, err := checked(w, txs[i])
			if err != nil {
				return nil, err
			}
			if r.Final = r.Block <= final.Number; r.Final {
				receipts[i] = r
			}
		}
		return receipts, nil
	})
}

// Decode reads the bytes of a signed transaction. It asks nobody: the sender is who signed it.
func Decode(raw []byte) (chain.Sent, error) {
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		return chain.Sent{}, fmt.Errorf("read a signed transaction: %w", err)
	}
	sender, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx)
	if err != nil {
		return chain.Sent{}, fmt.Errorf("read the signature of a transaction: %w", err)
	}
	value, err := chain.AmountOf(tx.Value().Bytes())
	if err != nil {
		return chain.Sent{}, fmt.Errorf("read the value of a transaction: %w", err)
	}
	s := chain.Sent{Hash: chain.Hash(tx.Hash()), Chain: chain.ID(tx.ChainId().Uint64()), Sender: chain.Address(sender),
		Nonce: tx.Nonce(), Value: value, Data: tx.Data()}
	if to := tx.To(); to != nil {
		s.To = chain.Address(*to)
	}
	return s, nil
}
