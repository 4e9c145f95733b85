package rpc

import (
	"context"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/store"
)

// ChainStates says how far chains are read: store.Watch.
type ChainStates interface {
	States(ctx context.Context) ([]store.ChainState, error)
}

// heightsOf returns how far each chain is.
func heightsOf(ctx context.Context, states ChainStates) (map[chain.ID]store.ChainState, error) {
	list, err := states.States(ctx)
	if err != nil {
		return nil, err
	}
	heights := map[chain.ID]store.ChainState{}
	for _, one := range list {
		heights[one.Chain] = one
	}
	return heights, nil
}
