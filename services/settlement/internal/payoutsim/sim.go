// Package payoutsim runs the real code of packages payout and sending through seeded histories: two workers, owners and
// operators, a signer, a chain with a pool that drops transactions, reorganizations and failing nodes, and books. A
// process may die at every step, which here is every call that leaves it; a new one goes on from what is stored. In
// some histories the signer loses its disk, or the database goes back to an earlier copy.
//
// After each history every payout was received once or not at all on the chain, and the books say which. Without a
// database that went back, nothing is left unfinished once faults end, and what left the hot wallet is what the books
// have. With one, a chain or signer that knows more than the database has halted the chain.
//
// The histories find planted faults (Plant): they are what the rules of package sending are there for.
package payoutsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/payoutsim/memory"
	"svc.internal/services/settlement/internal/sending"
)

// The times of a history.
const (
	faultyFor = time.Hour
	// calmFor bounds the time in which everything must end once faults have.
	calmFor   = 12 * time.Hour
	blockTime = 30 * time.Second
	lookFor   = 10 * time.Minute
)

// Run runs one history. The error is what was wrong.
func Run(seed uint64, plant Plant) (Result, error) {
	w := newWorld(seed, plant)
	restoreAt, loseAt := w.plans()
	end := w.now.Add(faultyFor)
	for w.now.Before(end) {
		w.step()
		if !restoreAt.IsZero() && w.now.After(restoreAt) {
			restoreAt = time.Time{}
			w.restore()
		}
		if !loseAt.IsZero() && w.now.After(loseAt) {
			loseAt = time.Time{}
			w.disk = newSignerRecord()
		}
	}
	w.calmDown()
	// Whatever there is to do, each worker looks once more.
	least, limit := w.now.Add(lookFor), w.now.Add(calmFor)
	for w.now.Before(limit) && (w.now.Before(least) || !w.done()) {
		for now := w.now; w.now.Equal(now); {
			w.step()
		}
	}
	for _, a := range w.actors {
		a.stop()
	}
	return w.result, w.judge()
}

// plans decides what is lost in a history, and when: mostly nothing.
func (w *world) plans() (restoreAt, loseAt time.Time) {
	at := func() time.Time {
		return w.now.Add(10*time.Minute + time.Duration(w.rng.Int64N(int64(faultyFor)*8/10)))
	}
	switch w.rng.IntN(10) {
	case 0, 1:
		restoreAt = at()
	case 2:
		loseAt = at()
	case 3:
		w.deep = true
	}
	return restoreAt, loseAt
}

func newWorld(seed uint64, plant Plant) *world {
	w := &world{
		rng:   rand.New(rand.NewPCG(seed, 14)), // #nosec G404 -- the same for each seed
		plant: plant, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), faulty: true,
		disk: newSignerRecord(), payable: map[ids.ProviderID]money.NanoUSD{}, inFlight: map[ids.ProviderID]money.NanoUSD{},
		accounts: map[payout.ID]*account{}, converted: map[payout.ID]ids.EntryID{}, gas: map[chain.Hash]sending.Spent{},
		signedOnce: map[chain.Hash]bool{},
	}
	w.db = memory.New(w.Now, chain.Base)
	w.db.SharedNonces = plant == SharedNonces
	held := uint64(200_000_000_000)
	if w.rng.IntN(5) == 0 {
		held = 2_000_000_000 // it must be filled up
	}
	w.chain = newSimChain(w.rng, held)
	w.nextBlock = w.now
	for range 2 {
		w.add(w.worker)
	}
	for i := range 4 {
		id := ids.ProviderID{0: 1, 6: 0x70, 8: 0x80, 15: byte(i + 1)}
		w.payable[id] = 20_000 * money.USD
		w.add(func(a *runner) { w.owner(a, id) })
	}
	w.add(w.operator)
	return w
}

func (w *world) add(run func(*runner)) {
	a := &runner{run: run, wake: w.now}
	a.start()
	w.actors = append(w.actors, a)
}

// step runs one process up to its next call, or lets time pass where all of them sleep.
func (w *world) step() {
	var awake []*runner
	soonest := w.nextBlock
	for _, a := range w.actors {
		if !a.wake.After(w.now) {
			awake = append(awake, a)
		} else if a.wake.Before(soonest) {
			soonest = a.wake
		}
	}
	if len(awake) == 0 || w.rng.IntN(200) == 0 {
		w.pass(soonest)
		return
	}
	a := awake[w.rng.IntN(len(awake))]
	if w.faulty && w.rng.IntN(150) == 0 {
		a.stop() // it dies here
		w.result.Crashes++
		a.start()
		a.wake = w.now.Add(time.Duration(w.rng.IntN(60)) * time.Second)
		return
	}
	d, ok := a.next()
	if !ok {
		a.start()
		d = time.Minute
	}
	a.wake = w.now.Add(d)
}

// pass moves time on, and the chain with it.
func (w *world) pass(to time.Time) {
	if to.After(w.now) {
		w.now = to
	}
	for !w.nextBlock.After(w.now) {
		w.nextBlock = w.nextBlock.Add(blockTime)
		w.chain.mine()
		if !w.faulty {
			continue
		}
		w.chain.disturb()
		switch {
		case w.rng.IntN(20) == 0:
			w.chain.reorg(1 + w.rng.IntN(depth))
			w.result.Reorgs++
		case w.deep && w.rng.IntN(60) == 0:
			w.chain.reorg(depth + 2 + w.rng.IntN(6))
			w.result.Reorgs++
		}
		if w.rng.IntN(10) == 0 {
			w.copies = append(w.copies, w.db.Copy())
		}
	}
}

// restore has the database go back, to a copy of up to an hour ago.
func (w *world) restore() {
	if len(w.copies) == 0 {
		return
	}
	w.db.Restore(w.copies[w.rng.IntN(len(w.copies))])
	w.result.Restored = true
	for _, a := range w.actors { // connections are lost, and so what was under way
		a.stop()
		a.start()
	}
}

// calmDown ends all faults: from here on everything must come to its end.
func (w *world) calmDown() {
	w.faulty, w.chain.calm = false, true
	w.chain.held += 200_000_000_000
}

// done reports whether nothing is left to do.
func (w *world) done() bool {
	p := memory.Payouts{DB: w.db}
	open, err := p.Open(context.Background(), 1)
	if err != nil || len(open) > 0 && !w.result.Restored {
		return false
	}
	// What a deep reorganization took back is mined again, once the fees of the chain let it.
	late, err := w.db.Late(context.Background(), chain.Base, sending.Place{}, 10_000)
	for _, s := range late {
		if _, mined := w.chain.at[s.End.Transaction]; !mined && w.deep {
			return false
		}
	}
	if err != nil {
		return false
	}
	due, err := w.db.GasDue(context.Background(), 1)
	return err == nil && len(due) == 0 && len(open) == 0
}

var errUnfinished = errors.New("it has not ended")

// judge says what is wrong in the end.
func (w *world) judge() error {
	halts := w.db.Halts(chain.Base)
	w.result.Halted = len(halts) > 0
	var faults []error
	for id, a := range w.accounts {
		faults = append(faults, w.judgeOne(id, a))
	}
	list, _, err := (memory.Payouts{DB: w.db}).InState(context.Background(), "", 0, 10_000)
	faults = append(faults, err)
	for _, p := range list {
		w.count(p)
		if _, reserved := w.accounts[p.ID]; !reserved && p.State != payout.Failed && !w.result.Restored {
			faults = append(faults, fmt.Errorf("payout %s is %s, and the books have none", p.ID, p.State))
		}
	}
	if !w.result.Restored {
		faults = append(faults, w.judgeWhole(list, halts))
	} else {
		faults = append(faults, w.judgeRestored(halts))
	}
	return errors.Join(faults...)
}

// judgeOne compares a payout in the books with the chain.
func (w *world) judgeOne(id payout.ID, a *account) error {
	times, sum := w.chain.payments(a.Address)
	switch {
	case times > 1:
		return fmt.Errorf("payout %s was received %d times", id, times)
	case times == 1 && sum != uint64(a.Net()/1_000):
		return fmt.Errorf("payout %s: %d units were received", id, sum)
	case !a.ended.IsZero() && a.confirmed != (times == 1):
		return fmt.Errorf("payout %s: the books say %t, and it was received %d times", id, a.confirmed, times)
	}
	return nil
}

// judgeWhole judges a history in which the database never went back.
func (w *world) judgeWhole(list []payout.Payout, halts []sending.Halt) error {
	var faults []error
	for _, h := range halts {
		if !w.deep || h.Cause != sending.FinalReorged {
			faults = append(faults, fmt.Errorf("the chain is halted: %s: %s", h.Cause, h.Detail))
		}
	}
	for _, p := range list {
		if !p.State.Final() {
			faults = append(faults, fmt.Errorf("payout %s is %s (%s): %w", p.ID, p.State, p.Waiting, errUnfinished))
		}
	}
	cost := 0
	for _, b := range w.chain.blocks {
		for _, m := range b.txs {
			if _, posted := w.gas[m.hash]; !posted && !w.deep {
				faults = append(faults, fmt.Errorf("the books do not have the gas of %s", m.hash))
			}
			cost++
		}
	}
	if len(w.gas) > cost && !w.deep {
		faults = append(faults, fmt.Errorf("the books have the gas of %d transactions, and there are %d", len(w.gas), cost))
	}
	return errors.Join(faults...)
}

// judgeRestored judges a history in which the database went back.
func (w *world) judgeRestored(halts []sending.Halt) error {
	own, err := w.db.Next(context.Background(), chain.Base, wallet, sending.Payout)
	_, latest := w.chain.nonces(wallet)
	if known := max(w.disk.next, latest); err == nil && known > own && len(halts) == 0 {
		return fmt.Errorf("the database has nonce %d, the world %d, and the chain is not halted", own, known)
	}
	return err
}

func (w *world) count(p payout.Payout) {
	w.result.Payouts++
	switch p.State {
	case payout.Confirmed:
		w.result.Confirmed++
	case payout.Failed:
		w.result.Failed++
	case payout.Cancelled:
		w.result.Cancelled++
	case payout.Requested, payout.Approved, payout.Signing, payout.Submitted: // it has not ended
	}
	if s, ok, _ := w.db.Call(context.Background(), payout.Purpose, p.ID.String()); ok {
		w.result.Bumps += max(len(s.Signed)-1, 0)
	}
}
