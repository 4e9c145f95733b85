package admission

import (
	"sync"
	"time"
)

// A place in the concurrency of a key, account or plan is given back by the gateway's
// report of the request. That report lingers for up to 50 ms to share a transaction with
// others. So a client that sends its next request as soon as it has an answer may find
// its own place taken. A request that finds no place therefore waits for the reports. The
// reports of this gateway are sent at once, and the reports of other gateways have been
// sent after the third of these waits. The last wait is for a ledger that is slow to take
// reports, because its disk or its processor is busy. A client that never has more
// requests open than the limit is never refused. A client that has more is refused half a
// second later.
var placeWaits = [...]time.Duration{0, 10 * time.Millisecond, 75 * time.Millisecond, 415 * time.Millisecond}

const (
	// maxWaiting bounds the requests of one key that wait for a place, and maxWaitingAll
	// the requests of all keys, because each costs an admission for each wait.
	maxWaiting    = 32
	maxWaitingAll = 256
	// contendedFor is how long after such a refusal the reports of a key are sent without
	// lingering. maxContended bounds the keys.
	contendedFor = time.Minute
	maxContended = 4096
	// flushTime bounds the wait for this gateway's own reports.
	flushTime = 250 * time.Millisecond
)

// places are the keys whose requests wait for a place.
type places struct {
	mu        sync.Mutex
	waiting   map[string]int
	all       int
	contended map[string]*time.Timer
}

// isContended reports whether the reports of a key are sent without lingering.
func (p *places) isContended(keyID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contended[keyID] != nil
}

// enter counts a request of a key that waits; it reports false when too many do.
func (p *places) enter(keyID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contendLocked(keyID)
	if p.waiting[keyID] >= maxWaiting || p.all >= maxWaitingAll {
		return false
	}
	if p.waiting == nil {
		p.waiting = map[string]int{}
	}
	p.waiting[keyID]++
	p.all++
	return true
}

func (p *places) leave(keyID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.waiting[keyID]--; p.waiting[keyID] == 0 {
		delete(p.waiting, keyID)
	}
}

func (p *places) contendLocked(keyID string) {
	if timer := p.contended[keyID]; timer != nil {
		timer.Reset(contendedFor)
		return
	}
	if len(p.contended) >= maxContended {
		return
	}
	if p.contended == nil {
		p.contended = map[string]*time.Timer{}
	}
	p.contended[keyID] = time.AfterFunc(contendedFor, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.contended, keyID)
	})
}
