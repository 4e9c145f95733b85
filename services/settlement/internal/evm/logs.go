package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"svc.internal/services/settlement/internal/chain"
)

// MaxTopics bounds the alternatives of one place of a filter.
const MaxTopics = 1_000

// Logs returns the logs of contracts from one block to another, both included, at most MaxWindow, in order. Each
// element of topics has the alternatives of its place; none stands for any. Where an RPC answers that it is asked for
// too much, the window is halved, down to one block.
func (c *Chain) Logs(
	ctx context.Context, from, to uint64, contracts []chain.Address, topics [][]chain.Hash,
) ([]chain.Log, error) {
	if from > to || to-from >= MaxWindow || len(contracts) == 0 || len(topics) > 4 {
		return nil, fmt.Errorf("logs of %d contracts in blocks %d to %d cannot be asked for", len(contracts), from, to)
	}
	f := filter{contracts: contracts, topics: topics}
	what := fmt.Sprintf("logs of blocks %d to %d", from, to)
	same := func(a, b []chain.Log) bool { return slices.EqualFunc(a, b, sameLog) }
	logs, err := agree(ctx, c, what, same, func(ctx context.Context, n *node) ([]chain.Log, error) {
		return n.logs(ctx, from, to, f)
	})
	if err == nil || from == to || !errors.Is(err, errAnswered) || ctx.Err() != nil {
		return logs, err
	}
	half := from + (to-from)/2
	first, err := c.Logs(ctx, from, half, contracts, topics)
	if err != nil {
		return nil, err
	}
	rest, err := c.Logs(ctx, half+1, to, contracts, topics)
	if err != nil {
		return nil, err
	}
	return append(first, rest...), nil
}

// filter is which logs are asked for.
type filter struct {
	contracts []chain.Address
	topics    [][]chain.Hash
}

func (f filter) argument(from, to uint64) map[string]any {
	contracts := make([]string, len(f.contracts))
	for i, a := range f.contracts {
		contracts[i] = hexData(a[:])
	}
	topics := make([]any, len(f.topics))
	for i, choice := range f.topics {
		var texts []string
		for _, t := range choice {
			texts = append(texts, t.String())
		}
		if texts != nil {
			topics[i] = texts
		}
	}
	return map[string]any{"fromBlock": hexNumber(from), "toBlock": hexNumber(to), "address": contracts, "topics": topics}
}

// takes reports whether a log is one that was asked for.
func (f filter) takes(l chain.Log) bool {
	if !slices.Contains(f.contracts, l.Contract) || len(l.Topics) < len(f.topics) {
		return false
	}
	for i, choice := range f.topics {
		if len(choice) > 0 && !slices.Contains(choice, l.Topics[i]) {
			return false
		}
	}
	return true
}

// logs asks one RPC. It must answer with nothing but what it was asked for.
func (n *node) logs(ctx context.Context, from, to uint64, f filter) ([]chain.Log, error) {
	var raw []wireLog
	if err := n.call(ctx, &raw, "eth_getLogs", f.argument(from, to)); err != nil {
		return nil, err
	}
	logs := make([]chain.Log, 0, len(raw))
	for i := range raw {
		l, err := raw[i].log()
		if err != nil {
			return nil, err
		}
		if l.Block < from || l.Block > to || !f.takes(l) {
			return nil, fmt.Errorf("%w: it answers with a log that it was not asked for", chain.ErrUnavailable)
		}
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b chain.Log) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Index, b.Index))
	})
	return logs, nil
}
