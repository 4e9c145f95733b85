package devchain

import (
	"context"

	"svc.internal/services/settlement/anvil"
)

// Chain is one running chain.
type Chain struct {
	*anvil.Chain
	id    uint64
	state string // the file of the state; empty without a folder
	stop  context.CancelFunc
	kept  chan struct{} // closed when nothing is kept any more
}

// ID returns the chain's number.
func (c *Chain) ID() uint64 { return c.id }

// Mine makes blocks.
func (c *Chain) Mine(ctx context.Context, blocks int) error {
	return c.ask(ctx, nil, "anvil_mine", blocks)
}

// ask calls a method of the chain and decodes its result, unless into is nil.
func (c *Chain) ask(ctx context.Context, into any, method string, params ...any) error {
	return Ask(ctx, c.URL, into, method, params...)
}
