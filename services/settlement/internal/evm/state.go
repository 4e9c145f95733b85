package evm

import (
	"context"
	"fmt"
	"slices"

	"svc.internal/services/settlement/internal/chain"
)

// balanceOf is the selector of balanceOf(address).
var balanceOf = []byte{0x70, 0xa0, 0x82, 0x31}

// at names a block by its hash (EIP-1898), so that an RPC that has another block answers with an error.
func at(b chain.Block) map[string]any { return map[string]any{"blockHash": b.Hash.String()} }

// Nonce returns how many transactions an account has sent: as of the last final block, on which all RPCs agree, and as
// of the latest block of the RPC that has the most.
func (c *Chain) Nonce(ctx context.Context, account chain.Address) (final, latest uint64, err error) {
	block, err := c.Final(ctx)
	if err != nil {
		return 0, 0, err
	}
	ask := func(tag any) func(context.Context, *node) (uint64, error) {
		return func(ctx context.Context, n *node) (uint64, error) {
			var count quantity
			err := n.call(ctx, &count, "eth_getTransactionCount", hexData(account[:]), tag)
			return uint64(count), err
		}
	}
	final, err = agree(ctx, c, "a final nonce", equal[uint64], ask(at(block)))
	if err != nil {
		return 0, 0, err
	}
	counts, err := everyAnswer(ctx, c, "a nonce", ask("latest"))
	if err != nil {
		return 0, 0, err
	}
	return final, slices.Max(counts), nil
}

// Balance returns the coins of an account as of a block.
func (c *Chain) Balance(ctx context.Context, account chain.Address, block chain.Block) (chain.Amount, error) {
	balances, err := c.Balances(ctx, []chain.Address{account}, block)
	if err != nil {
		return chain.Amount{}, err
	}
	return balances[0], nil
}

// Balances returns the coins of accounts as of a block.
func (c *Chain) Balances(ctx context.Context, accounts []chain.Address, block chain.Block) ([]chain.Amount, error) {
	args := make([][]any, len(accounts))
	for i, a := range accounts {
		args[i] = []any{hexData(a[:]), at(block)}
	}
	same := equalSlices[chain.Amount]
	return agree(ctx, c, "balances", same, func(ctx context.Context, n *node) ([]chain.Amount, error) {
		raw, err := batch[*amount](ctx, n, "eth_getBalance", args)
		if err != nil {
			return nil, err
		}
		balances := make([]chain.Amount, len(raw))
		for i, a := range raw {
			if a == nil {
				return nil, fmt.Errorf("%w: it has no balance of %s", chain.ErrUnavailable, accounts[i])
			}
			balances[i] = a.Amount
		}
		return balances, nil
	})
}

// TokenBalance returns what an account has of a token as of a block.
func (c *Chain) TokenBalance(
	ctx context.Context, token, account chain.Address, block chain.Block,
) (chain.Amount, error) {
	balances, err := c.TokenBalances(ctx, token, []chain.Address{account}, block)
	if err != nil {
		return chain.Amount{}, err
	}
	return balances[0], nil
}

// TokenBalances returns what accounts have of a token as of a block.
func (c *Chain) TokenBalances(
	ctx context.Context, token chain.Address, accounts []chain.Address, block chain.Block,
) ([]chain.Amount, error) {
	args := make([][]any, len(accounts))
	for i, a := range accounts {
		question := append(append(slices.Clone(balanceOf), make([]byte, 12)...), a[:]...)
		args[i] = []any{map[string]any{"to": hexData(token[:]), "data": hexData(question)}, at(block)}
	}
	what := "balances of the token " + token.String()
	return agree(ctx, c, what, equalSlices[chain.Amount], func(ctx context.Context, n *node) ([]chain.Amount, error) {
		raw, err := batch[data](ctx, n, "eth_call", args)
		if err != nil {
			return nil, err
		}
		balances := make([]chain.Amount, len(raw))
		for i, word := range raw {
			if len(word) != 32 {
				return nil, fmt.Errorf("%w: the balance of %s is not a word", chain.ErrUnavailable, accounts[i])
			}
			if balances[i], err = chain.AmountOf(word); err != nil {
				return nil, err
			}
		}
		return balances, nil
	})
}

// Code returns the code of an account as of the last final block; empty where the account is no contract.
func (c *Chain) Code(ctx context.Context, account chain.Address) ([]byte, error) {
	block, err := c.Final(ctx)
	if err != nil {
		return nil, err
	}
	return agree(ctx, c, "the code of "+account.String(), equalSlices[byte],
		func(ctx context.Context, n *node) ([]byte, error) {
			var code data
			err := n.call(ctx, &code, "eth_getCode", hexData(account[:]), at(block))
			return code, err
		})
}
