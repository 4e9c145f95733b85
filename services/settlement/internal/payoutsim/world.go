package payoutsim

import (
	"iter"
	"math/rand/v2"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/payoutsim/memory"
	"svc.internal/services/settlement/internal/sending"
)

// Plant is a fault that a history must find.
type Plant int

// The planted faults.
const (
	Nothing Plant = iota
	// SharedNonces: two calls may get one nonce.
	SharedNonces
	// BroadcastFirst: a transaction is sent before its bytes are committed.
	BroadcastFirst
	// TimeOut: a payout whose transaction takes long is failed.
	TimeOut
	// NewContent: a transaction that is signed again gets another nonce.
	NewContent
	// Unreported: no halt says that a final block is gone.
	Unreported
)

// Result is what a history was.
type Result struct {
	Payouts, Confirmed, Failed, Cancelled int
	Crashes, Bumps, Reorgs                int
	// TakenBack are calls whose final block was taken back after they had ended. Denied are payouts of these whose nonce
	// went to another transaction, so that the chain denies what the books say: they are halted on and reported.
	TakenBack, Denied int
	// Restored reports that the database went back, and Halted that the chain was halted.
	Restored, Halted bool
}

// world is one history.
type world struct {
	rng    *rand.Rand
	plant  Plant
	now    time.Time
	faulty bool

	db    *memory.DB
	chain *simChain
	disk  signerRecord
	// The books.
	payable, inFlight map[ids.ProviderID]money.NanoUSD
	accounts          map[payout.ID]*account
	converted         map[payout.ID]ids.EntryID
	gas               map[chain.Hash]sending.Spent
	entries           int

	addresses  int
	signedOnce map[chain.Hash]bool
	actors     []*runner
	nextBlock  time.Time
	copies     []memory.Copy
	deep       bool
	result     Result
}

// runner is a process. It runs until its next call leaves it.
type runner struct {
	run   func(*runner)
	yield func(time.Duration) bool
	next  func() (time.Duration, bool)
	stop  func()
	wake  time.Time
}

// killed unwinds a process that dies.
type killed struct{}

// pause is a step at which the process may die, and others may go on.
func (a *runner) pause() { a.sleep(0) }

func (a *runner) sleep(d time.Duration) {
	if !a.yield(d) {
		panic(killed{})
	}
}

// start begins a process anew.
func (a *runner) start() {
	a.next, a.stop = iter.Pull(func(yield func(time.Duration) bool) {
		defer func() {
			if p := recover(); p != nil && p != (killed{}) {
				panic(p)
			}
		}()
		a.yield = yield
		a.run(a)
	})
}

// signerRecord is the chain-signer's disk.
type signerRecord struct {
	next    uint64
	content map[uint64]chain.Hash
	// cancelled are nonces that were cancelled before a content was signed.
	cancelled map[uint64]bool
}

func newSignerRecord() signerRecord {
	return signerRecord{content: map[uint64]chain.Hash{}, cancelled: map[uint64]bool{}}
}

// account is a payout as the books have it.
type account struct {
	payout.Payout
	reserved, ended ids.EntryID
	confirmed       bool
}

// Now implements clock.Clock.
func (w *world) Now() time.Time { return w.now }

// Read implements io.Reader with the history's own randomness.
func (w *world) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.rng.Uint32())
	}
	return len(p), nil
}
