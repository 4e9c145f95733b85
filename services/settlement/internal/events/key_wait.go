package events

import (
	"time"

	"svc.internal/pkg/clock"
)

// Usage under a key that its hub has had the time to hand over. A hub seals with a
// key once billing-ledger has it, so a call to this service that failed is enough
// for usage to come before its key; the hub tries again within 10 s, and hands
// every key over again each minute. And a hub strikes what billing-ledger has
// settled, so it does not publish for us again: what is set aside here is filled
// in from the ledger, and is not a second evidence source then. So it waits a while, but not
// so that a hub that makes up keys stops the usage of others: a consumer is given
// no more than 1,000 messages that it has not acknowledged.
const (
	// maxLooks is how often a message is looked at: with keyPause between, for 90 s
	// and more. It counts the looks that found no key, and not the deliveries, of
	// which each failure of the database is one, nor the time since publication.
	maxLooks = 18
	// maxPerHub and maxParked bound what waits, of a hub and in all.
	maxPerHub = 50
	maxParked = 300
	// parkedFor is how long a message may not have been seen before its place is
	// free: another replica was given it.
	parkedFor = time.Minute
)

// keyWait counts what waits in the stream for its key. It is for one goroutine.
type keyWait struct {
	clock clock.Clock
	hubs  map[string]map[uint64]waitingHub
	n     int
}

type waitingHub struct {
	looks int
	seen  time.Time
}

func newParking(c clock.Clock) *keyWait {
	return &keyWait{clock: c, hubs: map[string]map[uint64]waitingHub{}}
}

// wait reports whether a message of a hub may wait once more.
func (p *keyWait) wait(hub string, sequence uint64) bool {
	now := p.clock.Now()
	at, known := p.hubs[hub][sequence]
	if !known && (len(p.hubs[hub]) >= maxPerHub || p.n >= maxParked) {
		p.tidy(now)
	}
	if !known && (len(p.hubs[hub]) >= maxPerHub || p.n >= maxParked) {
		return false
	}
	if at.looks >= maxLooks {
		p.free(hub, sequence)
		return false
	}
	if p.hubs[hub] == nil {
		p.hubs[hub] = map[uint64]waitingHub{}
	}
	if !known {
		p.n++
	}
	p.hubs[hub][sequence] = waitingHub{looks: at.looks + 1, seen: now}
	return true
}

// free forgets a message that waits no more.
func (p *keyWait) free(hub string, sequence uint64) {
	if _, known := p.hubs[hub][sequence]; !known {
		return
	}
	delete(p.hubs[hub], sequence)
	p.n--
	if len(p.hubs[hub]) == 0 {
		delete(p.hubs, hub)
	}
}

// tidy frees the places of what has not been seen for a while.
func (p *keyWait) tidy(now time.Time) {
	for hub, messages := range p.hubs {
		for sequence, at := range messages {
			if now.Sub(at.seen) > parkedFor {
				p.free(hub, sequence)
			}
		}
	}
}
