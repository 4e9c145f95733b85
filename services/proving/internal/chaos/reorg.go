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
	hashes, err := m.paying.removePayouts(ctx, 0, unfinalBlocks-1)
	m.reorgs.Add(int64(len(hashes)))
	release()
	if err != nil || len(hashes) > 0 {
		return err
	}
	_, err = m.removed(ctx, lookInterval, 0, unfinalBlocks-1)
	return err
}

// removed waits for a payout in blocks that stand so far below the head, and takes them off the chain. It returns the
// transactions that the chain has no longer.
func (m *market) removed(ctx context.Context, pause time.Duration, lowest, highest int64) (hashes []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachBound)
	defer cancel()
	err = every(ctx, pause, func() (bool, error) {
		select {
		case <-m.over:
			return false, errMissed
		default:
		}
		hashes, err = m.paying.removePayouts(ctx, lowest, highest)
		m.reorgs.Add(int64(len(hashes)))
		return len(hashes) > 0, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = errMissed
	}
	return hashes, err
}

// unfinal takes blocks off the chain that were final, with the newest payout that was, and is the operator of the chain
// then: once the transaction stands on it again, he names the hash that he accepts, and lifts the halts.
func (m *market) unfinal(ctx context.Context) error {
	removed, err := m.removed(ctx, idleInterval, unfinalBlocks, unfinalBlocks+lookBack)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restoreBound)
	defer cancel()
	lifted, steady, last := 0, 0, errors.New("nobody has looked")
	err = every(ctx, liftInterval, func() (bool, error) {
		for _, hash := range removed {
			if final, err := m.paying.isFinal(ctx, hash); err != nil || !final {
				// Blocks come for transactions, and nothing sends one while the chain is halted.
				last = errors.Join(fmt.Errorf("%s is not final again", hash), err, m.paying.ask(ctx, nil, "anvil_mine", 1))
				return false, nil
			}
		}
		n, left, err := m.liftHalts(ctx)
		if lifted, steady = lifted+n, steady+1; left > 0 || err != nil {
			steady = 0
		}
		last = errors.Join(fmt.Errorf("%d halts were lifted, and %d are open", lifted, left), err)
		return lifted > 0 && steady >= liftSteady, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		// The payouts of the night would wait for ever.
		return fmt.Errorf("a chain whose final blocks have changed goes on within %v: %w", restoreBound, last)
	}
	return err
}

// removePayouts removes all blocks from the newest one on that has a payout, of those that stand so many blocks below
// the head. It returns the payouts' transactions that the chain has no longer.
func (p *paying) removePayouts(ctx context.Context, lowest, highest int64) (removed []string, err error) {
	p.reorgs.Lock()
	defer p.reorgs.Unlock()
	var head header
	if err := p.ask(ctx, &head, "eth_getBlockByNumber", "latest", false); err != nil {
		return nil, err
	}
	for below := lowest; below <= highest && below < number(head.Number); below++ {
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
		// Blocks that came meanwhile are taken off in place of the lowest. What comes while they are replaced may stand
		// in a new one, at whose number the chain has been before: it needs blocks behind it. The clock of the chain goes
		// back with the blocks, so it is set again: a slash that is executed again would still be too early.
		if err := errors.Join(p.ask(ctx, nil, "anvil_reorg", below+1, []any{}),
			p.ask(ctx, nil, "evm_setNextBlockTimestamp", number(head.Timestamp)+1),
			p.ask(ctx, nil, "anvil_mine", unfinalBlocks)); err != nil {
			return nil, err
		}
		for _, hash := range sent {
			var r *receipt
			if err := p.ask(ctx, &r, "eth_getTransactionReceipt", hash); err != nil {
				return removed, err
			}
			if r == nil {
				removed = append(removed, hash)
			}
		}
		return removed, nil
	}
	return nil, nil
}

// payoutsIn are the transactions of a block that the wallet for payouts has sent.
func payoutsIn(p *paying, b block) (hashes []string) {
	for _, tx := range b.Transactions {
		if from, err := ethereum.ParseAddress(tx.From); err == nil && from == p.keys["payout"] {
			hashes = append(hashes, tx.Hash)
		}
	}
	return hashes
}

// isFinal reports whether a transaction stands in a final block.
func (p *paying) isFinal(ctx context.Context, hash string) (bool, error) {
	var r *struct {
		BlockNumber string `json:"blockNumber"`
	}
	var final header
	if err := errors.Join(p.ask(ctx, &r, "eth_getTransactionReceipt", hash),
		p.ask(ctx, &final, "eth_getBlockByNumber", "finalized", false)); err != nil {
		return false, err
	}
	return r != nil && number(r.BlockNumber) <= number(final.Number), nil
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
