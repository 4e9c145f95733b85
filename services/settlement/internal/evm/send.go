package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/services/settlement/internal/chain"
)

const (
	// maxTransaction bounds the bytes of a signed transaction.
	maxTransaction = 128 << 10
	// maxGas bounds what a transaction may be estimated at: chain-signer signs no more.
	maxGas = 10_000_000
)

// Broadcast sends a signed transaction to all RPCs. The outcome is the best that any of them states. A transaction
// that they have already, or that is mined, is Accepted.
func (c *Chain) Broadcast(ctx context.Context, raw []byte) (chain.Outcome, error) {
	if len(raw) == 0 || len(raw) > maxTransaction {
		return "", fmt.Errorf("a signed transaction has 1 to %d bytes, not %d", maxTransaction, len(raw))
	}
	hash := chain.Hash(crypto.Keccak256Hash(raw))
	var faults []error
	best := chain.Outcome("")
	for i, a := range askAll(ctx, c, func(ctx context.Context, n *node) (chain.Outcome, error) {
		return n.broadcast(ctx, raw, hash)
	}) {
		if a.err == nil && rank(a.value) > rank(best) {
			best = a.value
		}
		if a.err != nil {
			faults = append(faults, fmt.Errorf("rpc %d: %w", i+1, a.err))
		}
	}
	if best != "" {
		return best, nil
	}
	return "", fmt.Errorf("broadcast %s on chain %s: %w", hash, c.cfg.ID, errors.Join(faults...))
}

// rank orders outcomes by how good they are.
func rank(o chain.Outcome) int {
	return slices.Index([]chain.Outcome{"", chain.Unfunded, chain.Underpriced, chain.NonceUsed, chain.Accepted}, o)
}

// broadcast sends to one RPC. Nodes have no numbers for their refusals, only words, which differ by client.
func (n *node) broadcast(ctx context.Context, raw []byte, hash chain.Hash) (chain.Outcome, error) {
	var got json.RawMessage
	err := n.call(ctx, &got, "eth_sendRawTransaction", hexData(raw))
	if err == nil {
		return chain.Accepted, nil
	}
	var revert *chain.Revert
	if !errors.Is(err, errAnswered) && !errors.As(err, &revert) {
		return "", err
	}
	says := strings.ToLower(err.Error())
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(says, w) })
	}
	switch {
	case has("already known", "already imported", "known transaction", "alreadyknown"):
		return chain.Accepted, nil
	case has("nonce too low", "nonce is too low", "oldnonce", "nonce has already been used"):
		return n.usedNonce(ctx, hash)
	case has("underpriced", "fee too low", "feetoolow", "txpool is full", "less than block base fee"):
		return chain.Underpriced, nil
	case has("insufficient funds", "insufficient balance"):
		return chain.Unfunded, nil
	}
	return "", fmt.Errorf("%w: %w", chain.ErrRefused, err)
}

// usedNonce tells a transaction that is mined from one whose nonce another has used.
func (n *node) usedNonce(ctx context.Context, hash chain.Hash) (chain.Outcome, error) {
	var known json.RawMessage
	if err := n.call(ctx, &known, "eth_getTransactionByHash", hash.String()); err != nil {
		return "", err
	}
	if len(known) > 0 && string(known) != "null" {
		return chain.Accepted, nil
	}
	return chain.NonceUsed, nil
}

// SuggestFees returns what a transaction should offer now: the tip that RPCs ask for, and twice the base fee with it,
// within the configured maximum. Of several RPCs the middle one counts, of two the cheaper.
func (c *Chain) SuggestFees(ctx context.Context) (chain.Fees, error) {
	var all []chain.Fees
	var faults []error
	for i, a := range askAll(ctx, c, func(ctx context.Context, n *node) (chain.Fees, error) { return n.fees(ctx) }) {
		if a.err == nil {
			all = append(all, a.value)
		} else {
			faults = append(faults, fmt.Errorf("rpc %d: %w", i+1, a.err))
		}
	}
	if len(all) == 0 {
		return chain.Fees{}, fmt.Errorf("read the fees of chain %s: %w", c.cfg.ID, errors.Join(faults...))
	}
	slices.SortFunc(all, func(a, b chain.Fees) int { return a.Max.Cmp(b.Max) })
	fees := all[(len(all)-1)/2]
	if fees.Max.Cmp(c.cfg.MaxGasPrice) > 0 {
		fees.Max = c.cfg.MaxGasPrice
	}
	if fees.Tip.Cmp(fees.Max) > 0 {
		fees.Tip = fees.Max
	}
	return fees, nil
}

func (n *node) fees(ctx context.Context) (chain.Fees, error) {
	var tip amount
	if err := n.call(ctx, &tip, "eth_maxPriorityFeePerGas"); err != nil {
		return chain.Fees{}, err
	}
	var latest *wireBlock
	if err := n.call(ctx, &latest, "eth_getBlockByNumber", "latest", false); err != nil {
		return chain.Fees{}, err
	}
	if latest == nil || latest.BaseFee == nil {
		return chain.Fees{}, fmt.Errorf("%w: its blocks have no base fee", chain.ErrUnavailable)
	}
	double, below := latest.BaseFee.MulDiv(2, 1)
	highest, ok := double.Add(tip.Amount)
	if !below || !ok {
		return chain.Fees{}, fmt.Errorf("%w: its base fee cannot be", chain.ErrUnavailable)
	}
	if highest.IsZero() {
		highest = chain.NewAmount(1)
	}
	return chain.Fees{Max: highest, Tip: tip.Amount}, nil
}

// EstimateGas returns the gas that a call takes at the latest block: the most that any RPC says. A call that fails by
// the word of all RPCs is a *chain.Revert, and so is one that takes more than is signed, because it can never be made.
func (c *Chain) EstimateGas(ctx context.Context, call chain.Call) (uint64, error) {
	estimates, err := everyCall(ctx, c, "the gas of a call", func(ctx context.Context, n *node) (uint64, error) {
		var gas quantity
		err := n.call(ctx, &gas, "eth_estimateGas", argument(call))
		return uint64(gas), err
	})
	if err != nil {
		return 0, err
	}
	gas := slices.Max(estimates)
	if gas > maxGas {
		return 0, &chain.Revert{Reason: fmt.Sprintf("it takes %d of gas, and at most %d is possible", gas, maxGas)}
	}
	return gas, nil
}

// Call makes a call at the latest block without sending it. It fails with a *chain.Revert where all RPCs see it
// reverted. The result is that of the first RPC, because the latest block is not everywhere the same.
func (c *Chain) Call(ctx context.Context, call chain.Call) ([]byte, error) {
	results, err := everyCall(ctx, c, "a call", func(ctx context.Context, n *node) ([]byte, error) {
		var result data
		err := n.call(ctx, &result, "eth_call", argument(call), "latest")
		return result, err
	})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// CallAt makes a call at a block, on whose result all RPCs agree.
func (c *Chain) CallAt(ctx context.Context, call chain.Call, block chain.Block) ([]byte, error) {
	return agree(ctx, c, "a call", equalSlices[byte], func(ctx context.Context, n *node) ([]byte, error) {
		var result data
		err := n.call(ctx, &result, "eth_call", argument(call), at(block))
		return result, err
	})
}

func argument(call chain.Call) map[string]any {
	return map[string]any{"from": hexData(call.From[:]), "to": hexData(call.To[:]), "value": hexAmount(call.Value),
		"data": hexData(call.Data)}
}
