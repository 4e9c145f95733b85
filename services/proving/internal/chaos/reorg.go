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
	"svc.internal/services/proving/internal/chaos/plan"
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
// It looks at the chain all night, because settlement comes late to its moment when one of its two nodes does not
// answer: the payout that the other node took is final by then.
func (m *market) reorg(ctx context.Context, f plan.Fault, hurt func()) error {
	_, err := m.removed(ctx, f, func() {}, lookInterval, window{highest: unfinalBlocks - 1})
	if err == nil {
		hurt()
	}
	return err
}

// removed waits for a payout in the blocks of a window, and takes them off the chain. It returns the transactions that
// were there.
//
// Settlement comes to the moment with penalties, and with payouts on the other chain, too. A payout is final as soon as
// two blocks stand on its own, which may be milliseconds after it was sent, because settlement sends its calls one
// after the other. So settlement stands each time that it comes to the moment until the chain has been looked at.
func (m *market) removed(
	ctx context.Context, f plan.Fault, release func(), pause time.Duration, w window,
) (removed []transaction, err error) {
	at := moment{points: m.points, point: f.Cell.Point, over: m.over}
	err = at.each(ctx, release, pause, func() (bool, error) {
		removed, err = m.paying.removePayouts(ctx, w)
		m.reorgs.Add(int64(len(removed)))
		return len(removed) > 0, err
	})
	return removed, err
}

// unfinal takes blocks off the chain that were final, with the newest payout that settlement knows to be final, and is
// the operator of the chain then: once a transaction of the payout's nonce is final again, he names the hash that he
// accepts, and lifts the halts. What settlement had not seen there would halt nothing.
func (m *market) unfinal(ctx context.Context, f plan.Fault, release, hurt func()) error {
	removed, err := m.removed(ctx, f, release, idleInterval, window{lowest: unfinalBlocks,
		highest: unfinalBlocks + lookBack, takes: m.books.Ended})
	if err != nil {
		return err
	}
	hurt()
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
// payouts' transactions that were in that block: the chain has them no longer, or has them again in another block.
func (p *paying) removePayouts(ctx context.Context, w window) (removed []transaction, err error) {
	p.reorgs.Lock()
	defer p.reorgs.Unlock()
	var latest int64 // by the clock of the chain, once blocks were replaced
	for {
		was, err := p.findPayouts(ctx, w)
		if err == nil && len(was.sent) > 0 {
			// A block that came meanwhile is taken off in place of the payouts' own, and then the chain is looked at again.
			// The clock of the chain goes back with the blocks, so it is set again: a slash that is executed again would
			// still be too early.
			latest = max(latest, was.latest) + 1
			err = errors.Join(p.ask(ctx, nil, "anvil_reorg", was.below+1, []any{}),
				p.ask(ctx, nil, "evm_setNextBlockTimestamp", latest))
		}
		if err == nil {
			removed, err = p.gone(ctx, was)
		}
		if err == nil && len(was.sent) > len(removed) {
			continue
		}
		if latest > 0 {
			// What comes while blocks are replaced may stand in a new one, at whose number the chain has been before: it
			// needs blocks behind it.
			err = errors.Join(err, p.ask(ctx, nil, "anvil_mine", unfinalBlocks))
		}
		return removed, err
	}
}

// found are the payouts of a block, so many blocks below the head, and the time of the head.
type found struct {
	sent          []transaction
	hash          string
	below, latest int64
}

// findPayouts finds the newest block with payouts, if it is in the window and they may go.
func (p *paying) findPayouts(ctx context.Context, w window) (found, error) {
	var head header
	if err := p.ask(ctx, &head, "eth_getBlockByNumber", "latest", false); err != nil {
		return found{}, err
	}
	for below := w.lowest; below <= w.highest && below < number(head.Number); below++ {
		var b block
		if err := p.ask(ctx, &b, "eth_getBlockByNumber", fmt.Sprintf("0x%x", number(head.Number)-below), true); err != nil {
			return found{}, err
		}
		if number(head.Timestamp)-number(b.Timestamp) > int64(sentAgain/time.Second) {
			return found{}, nil
		}
		sent := payoutsIn(p, b)
		if len(sent) == 0 {
			continue
		}
		if !w.takesAll(ctx, sent) {
			return found{}, nil
		}
		return found{sent: sent, hash: b.Hash, below: below, latest: number(head.Timestamp)}, nil
	}
	return found{}, nil
}

// gone are the payouts that their block has no longer.
func (p *paying) gone(ctx context.Context, was found) (removed []transaction, err error) {
	for _, tx := range was.sent {
		var r *receipt
		if err := p.ask(ctx, &r, "eth_getTransactionReceipt", tx.Hash); err != nil {
			return removed, err
		}
		if r == nil || r.BlockHash != was.hash {
			removed = append(removed, tx)
		}
	}
	return removed, nil
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
