package evm

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"svc.internal/services/settlement/internal/chain"
)

// Sent returns the transaction that final blocks have with a nonce of a sender; found is false where none has. No RPC
// finds a transaction by its nonce, so the block is searched for by how many transactions the sender had at blocks,
// from the block number on, which needs RPCs that know the state of those blocks. That the sender has signed it is
// checked.
func (c *Chain) Sent(
	ctx context.Context, sender chain.Address, nonce, from uint64,
) (sent chain.Found, found bool, err error) {
	final, err := c.Final(ctx)
	if err != nil {
		return chain.Found{}, false, err
	}
	count, err := c.countAt(ctx, sender, final.Number)
	if err != nil || count <= nonce {
		return chain.Found{}, false, err
	}
	low, high := min(from, final.Number), final.Number
	for low < high {
		middle := low + (high-low)/2
		if count, err = c.countAt(ctx, sender, middle); err != nil {
			return chain.Found{}, false, err
		}
		if count > nonce {
			high = middle
		} else {
			low = middle + 1
		}
	}
	what := fmt.Sprintf("the transaction %d of %s", nonce, sender)
	sent, err = agree(ctx, c, what, sameSent, func(ctx context.Context, n *node) (chain.Found, error) {
		return n.sent(ctx, sender, nonce, low)
	})
	return sent, err == nil, err
}

func (c *Chain) countAt(ctx context.Context, account chain.Address, block uint64) (uint64, error) {
	what := fmt.Sprintf("the nonce of %s at block %d", account, block)
	return agree(ctx, c, what, equal[uint64], func(ctx context.Context, n *node) (uint64, error) {
		var count quantity
		err := n.call(ctx, &count, "eth_getTransactionCount", hexData(account[:]), hexNumber(block))
		return uint64(count), err
	})
}

func sameSent(a, b chain.Found) bool {
	return a.Hash == b.Hash && slices.Equal(a.Raw, b.Raw) && a.Block == b.Block && a.At.Equal(b.At)
}

// sent finds a transaction in a block.
func (n *node) sent(ctx context.Context, sender chain.Address, nonce, block uint64) (chain.Found, error) {
	var w *wireBlock
	if err := n.call(ctx, &w, "eth_getBlockByNumber", hexNumber(block), true); err != nil {
		return chain.Found{}, err
	}
	b, err := w.block(false)
	if err != nil {
		return chain.Found{}, err
	}
	for _, raw := range w.Transactions {
		var t struct {
			From  address  `json:"from"`
			Nonce quantity `json:"nonce"`
		}
		if err := json.Unmarshal(raw, &t); err != nil || chain.Address(t.From) != sender || uint64(t.Nonce) != nonce {
			continue
		}
		sent, err := readSent(raw, n.chain)
		if err == nil && sent.From != sender {
			err = fmt.Errorf("%w: the transaction %s is signed by %s", chain.ErrUnavailable, sent.Hash, sent.From)
		}
		sent.Block, sent.At = block, b.At.UTC().Truncate(time.Second)
		return sent, err
	}
	return chain.Found{}, fmt.Errorf("%w: block %d has not the transaction %d of %s", chain.ErrUnavailable, block, nonce,
		sender)
}

// readSent reads a transaction as JSON-RPC gives it.
func readSent(raw []byte, id chain.ID) (s chain.Found, err error) {
	var tx types.Transaction
	if err := tx.UnmarshalJSON(raw); err != nil {
		return s, fmt.Errorf("%w: a transaction cannot be read", chain.ErrUnavailable)
	}
	from, err := types.Sender(types.LatestSignerForChainID(new(big.Int).SetUint64(uint64(id))), &tx)
	if err != nil {
		return s, fmt.Errorf("%w: the signature of %s is none", chain.ErrUnavailable, chain.Hash(tx.Hash()))
	}
	if s.Raw, err = tx.MarshalBinary(); err != nil {
		return s, fmt.Errorf("write the transaction %s: %w", chain.Hash(tx.Hash()), err)
	}
	s.Hash, s.From, s.Nonce, s.Data, s.Gas = chain.Hash(tx.Hash()), chain.Address(from), tx.Nonce(), tx.Data(), tx.Gas()
	if to := tx.To(); to == nil {
		s.Creates = true
	} else {
		s.To = chain.Address(*to)
	}
	for into, n := range map[*chain.Amount]*big.Int{&s.Value: tx.Value(), &s.Fees.Max: tx.GasFeeCap(),
		&s.Fees.Tip: tx.GasTipCap()} {
		if *into, err = chain.AmountOf(n.Bytes()); err != nil {
			return s, err
		}
	}
	return s, nil
}
