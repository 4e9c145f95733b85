package events

import (
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/workreceipt"
	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	// maxWaiting bounds the receipts that wait.
	maxWaiting = 1 << 16
	// forwardAgain is the least pause between two questions about a receipt.
	forwardAgain = 20 * time.Second
	// maxWait is how long a receipt waits for its acknowledgement.
	maxWait = 10 * time.Minute
)

// Agent is the session that receipts come from: a *session.Session.
type Agent interface {
	Identity() session.Identity
	ReceiptKey() []byte
	AckReceipts(all []session.Acknowledged)
	Forged()
}

// WaitingReceipts are the receipts that are not answered yet, by attempt. Usage
// acknowledges them when it closes an attempt, and WorkReceipts when billing-ledger has
// judged them. They are safe for concurrent use.
type WaitingReceipts struct {
	clock clock.Clock

	mu  sync.Mutex
	all map[journal.Key]*waiter
}

// waiter is a receipt that is not answered yet.
type waiter struct {
	from         Agent
	since, asked time.Time
	// question is the last question to billing-ledger.
	question digest
}

// NewWaitingReceipts returns a set that is empty.
func NewWaitingReceipts(c clock.Clock) *WaitingReceipts {
	return &WaitingReceipts{clock: c, all: map[journal.Key]*waiter{}}
}

// Closed acknowledges the receipts of attempts that were just closed.
func (r *WaitingReceipts) Closed(keys []journal.Key) {
	done := map[Agent][]session.Acknowledged{}
	for _, key := range keys {
		if w := r.take(key); w != nil {
			of := workreceipt.Key{Request: key.Request, Attempt: key.Attempt}
			done[w.from] = append(done[w.from], session.Acknowledged{Key: of})
		}
	}
	for from, all := range done {
		from.AckReceipts(all)
	}
}

// wait notes which agent waits for an attempt, and reports whether billing-ledger may be
// asked now.
func (r *WaitingReceipts) wait(key journal.Key, from Agent, question digest) (ask bool) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.all[key]
	if w == nil {
		if len(r.all) >= maxWaiting {
			return false
		}
		w = &waiter{from: from}
		r.all[key] = w
	}
	if w.from.Identity().ProviderID != from.Identity().ProviderID {
		return false // one of the two agents was never given the attempt
	}
	w.from, w.since = from, now
	if !w.asked.IsZero() && now.Sub(w.asked) < forwardAgain {
		return false
	}
	w.asked, w.question = now, question
	return true
}

// take removes and returns the agent that waits for an attempt; nil for none.
func (r *WaitingReceipts) take(key journal.Key) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.all[key]
	delete(r.all, key)
	return w
}

// sweep forgets agents that have waited for too long. An agent that is still there asks
// again.
func (r *WaitingReceipts) sweep() {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, w := range r.all {
		if now.Sub(w.since) > maxWait {
			delete(r.all, key)
		}
	}
}
