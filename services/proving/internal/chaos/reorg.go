package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/settlement/devchain"
)

const (
	// unfinalBlocks is how many blocks of the chain are not final, behind which everything is.
	unfinalBlocks = 2
	// lookBack is how many final blocks are looked at for a payout, and lookInterval the pause between two looks.
	lookBack     = 32
	lookInterval = 20 * time.Millisecond
	// sentAgain is the age, by the chain's clock, of the oldest payout that is taken off: settlement sends again what
	// ended within a day, and a day of the night is three days long.
	sentAgain = 12 * time.Hour
	// liftInterval is the pause between two looks of the operator who lifts halts.
	liftInterval = 300 * time.Millisecond
	// liftSteady is how often in a row he must see none, because what reads the chain and what sends halt apart.
	liftSteady = 8
)

// reorg waits for a payout in blocks that are not final and takes these off the chain. Nobody is asked to do anything:
// the same bytes have to be sent again.
//
// A payout that has just been sent is not final for some hundred milliseconds, so the first look is before its sender
// goes on.
func (m *market) reorg(ctx context.Context, release func()) error {
	w := window{highest: unfinalBlocks - 1}
	removed, err := m.paying.removePayouts(ctx, w)
	m.reorgs.Add(int64(len(removed)))
	release()
	if err != nil || len(removed) > 0 {
		return err
	}
	_, err = m.removed(ctx, lookInterval, w)
	return err
}

// removed waits for a payout in the blocks of a window, and takes them off the chain. It returns the transactions that
// the chain has no longer.
func (m *market) removed(ctx context.Context, pause time.Duration, w window) (removed []transaction, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachBound)
	defer cancel()
	err = every(ctx, pause, func() (bool, error) {
		select {
		case <-m.over:
			return false, errMissed
		default:
		}
		removed, err = m.paying.removePayouts(ctx, w)
		m.reorgs.Add(int64(len(removed)))
		return len(removed) > 0, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = errMissed
	}
	return removed, err
}

// unfinal takes blocks off the chain that were final, with the newest payout that settlement knows to be final, and is
// the operator of the chain then: once a transaction of the payout's nonce is final again, he names the hash that he
// accepts, and lifts the halts. What settlement had not seen there would halt nothing.
func (m *market) unfinal(ctx context.Context) error {
	removed, err := m.removed(ctx, idleInterval, window{lowest: unfinalBlocks, highest: unfinalBlocks + lookBack,
		takes: m.books.Ended})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restoreBound)
	defer cancel()
	lifted, steady, last := 0, 0, errors.New("nobody has looked")
	err = every(ctx, liftInterval, func() (bool, error) {
		for _, tx := range removed {
			if final, err := m.paying.isFinal(ctx, tx); err != nil || !final {
				// Blocks come for transactions, and nothing sends one while the chain is halted.
				err = errors.Join(err, m.paying.ask(ctx, nil, "anvil_mine", 1))
				if ctx.Err() == nil { // an answer that no time was left for says nothing
					last = errors.Join(fmt.Errorf("%s, nonce %d, is not final again", tx.Hash, number(tx.Nonce)), err)
				}
				return false, nil
			}
		}
		n, left, err := m.liftHalts(ctx)
		if lifted, steady = lifted+n, steady+1; left > 0 || err != nil {
			steady = 0
		}
		if ctx.Err() == nil {
			last = errors.Join(fmt.Errorf("%d halts were lifted, and %d are open", lifted, left), err)
		}
		return lifted > 0 && steady >= liftSteady, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		// The payouts of the night would wait for ever.
		return fmt.Errorf("a chain whose final blocks have changed goes on within %v: %w", restoreBound, last)
	}
	return err
}

// window says which blocks may be taken off a chain: those that stand lowest to highest blocks below the head. Where
// takes is set, it says of a payout's hash whether the payout may go.
type window struct {
	lowest, highest int64
	takes           func(ctx context.Context, hash string) (bool, error)
}

// takesAll reports whether all payouts of a block may go. A database that restarts answers the next look.
func (w window) takesAll(ctx context.Context, sent []transaction) bool {
	for _, tx := range sent {
		if w.takes == nil {
			break
		}
		if ok, err := w.takes(ctx, tx.Hash); err != nil || !ok {
			return false
		}
	}
	return true
}

// removePayouts removes all blocks from the newest one on that has a payout, of those in the window. It returns the
// payouts' transactions that the chain has no longer.
func (p *paying) removePayouts(ctx context.Context, w window) (removed []transaction, err error) {
	p.reorgs.Lock()
	defer p.reorgs.Unlock()
	var head header
	if err := p.ask(ctx, &head, "eth_getBlockByNumber", "latest", false); err != nil {
		return nil, err
	}
	for below := w.lowest; below <= w.highest && below < number(head.Number); below++ {
		var b block
		if err := p.ask(ctx, &b, "eth_getBlockByNumber", fmt.Sprintf("0x%x", number(head.Number)-below), true); err != nil {
			return nil, err
		}
		if number(head.Timestamp)-number(b.Timestamp) > int64(sentAgain/time.Second) {
			return nil, nil
		}
		sent := payoutsIn(p, b)
		if len(sent) == 0 {
			continue
		}
		if !w.takesAll(ctx, sent) {
			return nil, nil
		}
		// Blocks that came meanwhile are taken off in place of the lowest. What comes while they are replaced may stand
		// in a new one, at whose number the chain has been before: it needs blocks behind it. The clock of the chain goes
		// back with the blocks, so it is set again: a slash that is executed again would still be too early.
		if err := errors.Join(p.ask(ctx, nil, "anvil_reorg", below+1, []any{}),
			p.ask(ctx, nil, "evm_setNextBlockTimestamp", number(head.Timestamp)+1),
			p.ask(ctx, nil, "anvil_mine", unfinalBlocks)); err != nil {
			return nil, err
		}
		for _, tx := range sent {
			var r *receipt
			if err := p.ask(ctx, &r, "eth_getTransactionReceipt", tx.Hash); err != nil {
				return removed, err
			}
			if r == nil {
				removed = append(removed, tx)
			}
		}
		return removed, nil
	}
	return nil, nil
}

// payoutsIn are the transactions of a block that the wallet for payouts has sent.
func payoutsIn(p *paying, b block) (sent []transaction) {
	for _, tx := range b.Transactions {
		if from, err := ethereum.ParseAddress(tx.From); err == nil && from == p.Keys["payout"] {
			sent = append(sent, tx)
		}
	}
	return sent
}

// isFinal reports whether a final block has a transaction of the sender and nonce of one: what is sent again may have
// other fees, and so another hash.
func (p *paying) isFinal(ctx context.Context, of transaction) (bool, error) {
	var next string
	if err := p.ask(ctx, &next, "eth_getTransactionCount", of.From, "finalized"); err != nil {
		return false, err
	}
	return number(next) > number(of.Nonce), nil
}

// liftHalts is what an operator does who has looked at a chain: he accepts the hash that it has now. It returns how
// many halts were lifted, and how many stood.
func (m *market) liftHalts(ctx context.Context) (lifted, open int, err error) {
	var reading struct {
		Chains []struct {
			ID   string `json:"chain_id"`
			Halt *struct {
				Block string `json:"block"`
			} `json:"halt"`
		} `json:"chains"`
	}
	var sending struct {
		List []struct {
			ID    int64  `json:"chain_id"`
			Cause string `json:"cause"`
		} `json:"list"`
	}
	if err := errors.Join(m.fleet.Admin(ctx, http.MethodGet, "chains", nil, &reading),
		m.fleet.Admin(ctx, http.MethodGet, "sending-halts", nil, &sending)); err != nil {
		return 0, 0, err
	}
	var faults []error
	lift := func(path string, body object) {
		open++
		err := m.fleet.Admin(ctx, http.MethodPost, path, body, nil)
		if faults = append(faults, err); err == nil {
			lifted++
		}
	}
	const reason = "a reorganisation of the development chain"
	for _, one := range reading.Chains {
		if one.Halt == nil {
			continue
		}
		hash, err := m.paying.hashOf(ctx, one.ID, one.Halt.Block)
		if err != nil {
			return lifted, open, err
		}
		lift("chains/"+one.ID+"/halt", object{"block_hash": hash, "reason": reason})
	}
	for _, one := range sending.List {
		lift("sending-halts/"+strconv.FormatInt(one.ID, 10)+"/lift", object{"cause": one.Cause, "reason": reason})
	}
	return lifted, open, errors.Join(faults...)
}

// hashOf is the hash of a block of a chain, by their numbers in decimal digits.
func (p *paying) hashOf(ctx context.Context, chain, decimal string) (string, error) {
	c := p.chain
	if chain == strconv.Itoa(coinChain) {
		c = p.coin
	}
	n, err := strconv.ParseInt(decimal, 10, 64)
	if err != nil {
		return "", fmt.Errorf("read the block of a halt: %w", err)
	}
	var b struct {
		Hash string `json:"hash"`
	}
	if err := devchain.Ask(ctx, c.URL, &b, "eth_getBlockByNumber", "0x"+strconv.FormatInt(n, 16), false); err != nil {
		return "", err
	}
	if !strings.HasPrefix(b.Hash, "0x") {
		return "", fmt.Errorf("block %d is not there", n)
	}
	return b.Hash, nil
}
