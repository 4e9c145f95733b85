package devchain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// lookPause is the pause between two looks for new blocks.
	lookPause = 200 * time.Millisecond
	// lastSave bounds the saving of a chain that is stopped.
	lastSave = 10 * time.Second
	// finalBehind is the number of blocks that stand on a final one.
	finalBehind = 2
)

// restore loads the state that dir has, and makes the folder.
func (c *Chain) restore(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a folder for a development chain: %w", err)
	}
	c.state = filepath.Join(dir, strconv.FormatUint(c.id, 10)+".state")
	state, err := os.ReadFile(c.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of a development chain: %w", err)
	}
	if err := c.ask(ctx, nil, "anvil_loadState", string(state)); err != nil {
		return err
	}
	return c.catchUp(ctx)
}

// catchUp moves the clock of a chain that was ahead of the machine to where it was.
func (c *Chain) catchUp(ctx context.Context) error {
	var block struct{ Timestamp string }
	if err := c.ask(ctx, &block, "eth_getBlockByNumber", "latest", false); err != nil {
		return err
	}
	at, err := strconv.ParseInt(block.Timestamp, 0, 64)
	if err != nil {
		return fmt.Errorf("read a block's time: %w", err)
	}
	if ahead := time.Until(time.Unix(at, 0)); ahead > 0 {
		return c.ask(ctx, nil, "evm_increaseTime", int64(ahead/time.Second)+1)
	}
	return nil
}

// keep saves each new state, and makes the blocks that make a transaction final. The state is saved first, so that
// nothing is final that a killed process forgets. A look that fails is made again.
func (c *Chain) keep(ctx context.Context) {
	defer close(c.kept)
	var saved, used uint64 // the last block, and the last one with a transaction
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
			defer cancel()
			_ = c.save(last) // the state of the last look stands
			return
		case <-c.Ended():
			return
		case <-time.After(lookPause):
		}
		head, err := c.number(ctx, "eth_blockNumber")
		if err != nil || head == saved {
			continue
		}
		for n := max(saved, head-min(head, finalBehind)) + 1; n <= head; n++ {
			count, err := c.number(ctx, "eth_getBlockTransactionCountByNumber", "0x"+strconv.FormatUint(n, 16))
			if err == nil && count > 0 {
				used = n
			}
		}
		if c.save(ctx) != nil {
			continue
		}
		saved = head
		if head < used+finalBehind {
			_ = c.Mine(ctx, 1) // the next look sees whether it came
			saved--            // so that the next look looks
		}
	}
}

// number asks for a number.
func (c *Chain) number(ctx context.Context, method string, params ...any) (uint64, error) {
	var text string
	if err := c.ask(ctx, &text, method, params...); err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 0, 64)
}

// save writes the chain's state, whole or not at all.
func (c *Chain) save(ctx context.Context) error {
	if c.state == "" {
		return nil
	}
	var state string
	if err := c.ask(ctx, &state, "anvil_dumpState"); err != nil {
		return err
	}
	next := c.state + ".next"
	if err := os.WriteFile(next, []byte(state), 0o600); err != nil {
		return fmt.Errorf("save the state of a development chain: %w", err)
	}
	if err := os.Rename(next, c.state); err != nil {
		return fmt.Errorf("save the state of a development chain: %w", err)
	}
	return nil
}
