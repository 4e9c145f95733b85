// Package evm is the one place that speaks JSON-RPC with nodes of chains.
//
// A chain has several RPCs of different operators. What is read is true when all of them say the same; when one is
// silent, behind or of another opinion, the reading fails (chain.ErrUnavailable, chain.ErrDisagree) and nothing is
// believed. A final block is the lowest that the RPCs call final, with one hash from all. What is sent goes to all of
// them, and one that takes it is enough.
//
// Addresses of RPCs may hold keys. They appear in no error: an error names an RPC by its place in the configuration.
package evm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/rpc"

	"svc.internal/services/settlement/internal/chain"
)

// Chain reads one chain, and sends to it. It is safe for concurrent use.
type Chain struct {
	cfg   chain.Config
	nodes []*node
}

// Dial returns the chain of a configuration. It opens no connection: each RPC is asked for its chain's number before
// it is asked for anything else.
func Dial(cfg chain.Config) (*Chain, error) {
	c := &Chain{cfg: cfg}
	for i, address := range cfg.RPCs {
		client, err := rpc.DialOptions(context.Background(), address.Reveal(), rpc.WithHTTPClient(httpClient()),
			rpc.WithBatchItemLimit(MaxBatch))
		if err != nil {
			// The error would show the address.
			return nil, fmt.Errorf("rpc %d of chain %s is not an address that can be dialled", i+1, cfg.ID)
		}
		c.nodes = append(c.nodes, &node{place: i + 1, chain: cfg.ID, client: client})
	}
	if len(c.nodes) == 0 {
		return nil, fmt.Errorf("chain %s has no rpc", cfg.ID)
	}
	return c, nil
}

// ID returns the chain's number.
func (c *Chain) ID() chain.ID { return c.cfg.ID }

// Config returns what the chain was made with.
func (c *Chain) Config() chain.Config { return c.cfg }

// Close closes the connections.
func (c *Chain) Close() {
	for _, n := range c.nodes {
		n.client.Close()
	}
}

// answer is what one RPC said.
type answer[T any] struct {
	value T
	err   error
}

// askAll asks all RPCs at once and waits for all answers.
func askAll[T any](ctx context.Context, c *Chain, ask func(context.Context, *node) (T, error)) []answer[T] {
	answers := make([]answer[T], len(c.nodes))
	var wait sync.WaitGroup
	for i, n := range c.nodes {
		wait.Go(func() { answers[i].value, answers[i].err = ask(ctx, n) })
	}
	wait.Wait()
	return answers
}

// everyAnswer returns the answers of all RPCs, or an error where one is missing.
func everyAnswer[T any](
	ctx context.Context, c *Chain, what string, ask func(context.Context, *node) (T, error),
) ([]T, error) {
	return values(c, what, askAll(ctx, c, ask))
}

// values returns the answers, or an error where one is missing.
func values[T any](c *Chain, what string, answers []answer[T]) ([]T, error) {
	var values []T
	var faults []error
	for i, a := range answers {
		if a.err != nil {
			faults = append(faults, fmt.Errorf("rpc %d: %w", i+1, a.err))
		}
		values = append(values, a.value)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("read %s of chain %s: %w", what, c.cfg.ID, errors.Join(faults...))
	}
	return values, nil
}

// everyCall is everyAnswer for calls that may revert: a call reverts where all RPCs say so. What follows from a revert
// is not taken back, so one RPC alone must not cause it.
func everyCall[T any](
	ctx context.Context, c *Chain, what string, ask func(context.Context, *node) (T, error),
) ([]T, error) {
	answers := askAll(ctx, c, ask)
	reverts := 0
	for _, a := range answers {
		var revert *chain.Revert
		if errors.As(a.err, &revert) {
			reverts++
		}
	}
	if reverts > 0 && reverts < len(answers) {
		return nil, fmt.Errorf("read %s of chain %s: %d of %d rpcs say that it reverts: %w", what, c.cfg.ID, reverts,
			len(answers), chain.ErrDisagree)
	}
	return values(c, what, answers)
}

// agree returns what all RPCs say.
func agree[T any](
	ctx context.Context, c *Chain, what string, same func(a, b T) bool, ask func(context.Context, *node) (T, error),
) (T, error) {
	values, err := everyAnswer(ctx, c, what, ask)
	if err != nil {
		var none T
		return none, err
	}
	for i, v := range values[1:] {
		if !same(values[0], v) {
			var none T
			return none, fmt.Errorf("read %s of chain %s: rpc 1 and rpc %d: %w", what, c.cfg.ID, i+2, chain.ErrDisagree)
		}
	}
	return values[0], nil
}

// equal compares what has ==.
func equal[T comparable](a, b T) bool { return a == b }

// equalSlices compares lists of what has ==.
func equalSlices[T comparable](a, b []T) bool { return slices.Equal(a, b) }
