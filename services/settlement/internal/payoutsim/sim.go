// Package payoutsim runs the real code of packages payout and sending through seeded histories: two workers, owners and
// operators, a signer, a chain with a pool that drops transactions, reorganizations and failing nodes, and books. A
// process may die at every step, which here is every call that leaves it; a new one goes on from what is stored. In
// some histories the signer loses its disk, or the database goes back to an earlier copy.
//
// After each history every payout was received once or not at all on the chain, and the books say which. Without a
// database that went back, nothing is left unfinished once faults end, and what left the hot wallet is what the books
// have. With one, a chain or signer that knows more than the database has halted the chain.
//
// A chain that takes back final blocks may mine the cancel instead of a payout that is confirmed, or the payout that
// was cancelled, which no sender can prevent. Then the books and the chain differ, and a halt and verify name the
// payout. Verify names no other.
//
// The histories find planted faults (Plant): they are what the rules of package sending are there for.
package payoutsim

import (
	"context"
	"math/rand/v2"
	"slices"
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
		if w.deep && !w.done() {
			least = w.now.Add(lookFor) // and looks again at what a reorganization took back
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
	case 3, 4:
		w.deep = true
	}
	if w.plant == Unreported {
		w.deep, restoreAt, loseAt = true, time.Time{}, time.Time{}
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
			w.chain.reorg(1+w.rng.IntN(depth), false)
			w.result.Reorgs++
		case w.deep && w.rng.IntN(15) == 0:
			w.chain.reorg(depth+2+w.rng.IntN(6), true)
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
	// What a deep reorganization took back is mined again, or another transaction of its nonce.
	late, err := w.db.Late(context.Background(), chain.Base, sending.Place{}, 10_000)
	for _, s := range late {
		if w.deep && !slices.ContainsFunc(s.Signed, func(tx sending.Signed) bool {
			r, mined := w.chain.receipt(tx.Hash)
			return mined && r.Final
		}) {
			return false
		}
	}
	if err != nil {
		return false
	}
	due, err := w.db.GasDue(context.Background(), 1)
	return err == nil && len(due) == 0 && len(open) == 0
}
