package events

import (
	"time"

	"svc.internal/pkg/clock"
)

// A hub seals with a key once billing-ledger has it. So where the call that hands the
// key to settlement fails, usage comes before its key. The hub tries that call again
// within 10 s, and hands over every key again each minute. A hub also forgets what
// billing-ledger has settled, so it does not publish for settlement again, and usage
// that is set aside here is filled in from the ledger, which is not a second evidence
// source. So such usage waits a while. The wait is bounded, because a consumer is given
// at most 1,000 messages that it has not acknowledged, and a hub that makes up keys must
// not stop the usage of others.
const (
	// maxLooks is how often a message is looked at, with keyPause between two looks:
	// for at least 90 s. Only looks that found no key count. Deliveries do not,
	// because each failure of the database is one, and neither does the time since
	// publication.
	maxLooks = 18
	// maxPerHub and maxWaiting bound the messages that wait, of one hub and of all.
	maxPerHub  = 50
	maxWaiting = 300
	// forgottenAfter is after how long a message that does not come again gives up its
	// place, because another replica was given it.
	forgottenAfter = time.Minute
)

// keyWait counts the messages that wait in the stream for their key. It is for one
// goroutine.
type keyWait struct {
	clock clock.Clock
	hubs  map[string]map[uint64]waitingHub
	n     int
}

type waitingHub struct {
	looks int
	seen  time.Time
}

func newKeyWait(c clock.Clock) *keyWait {
	return &keyWait{clock: c, hubs: map[string]map[uint64]waitingHub{}}
}

// wait reports whether a message of a hub may wait once more.
func (p *keyWait) wait(hub string, sequence uint64) bool {
	now := p.clock.Now()
	at, known := p.hubs[hub][sequence]
	if !known && (len(p.hubs[hub]) >= maxPerHub || p.n >= maxWaiting) {
		p.tidy(now)
	}
	if !known && (len(p.hubs[hub]) >= maxPerHub || p.n >= maxWaiting) {
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

// free forgets a message that no longer waits.
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

// tidy frees the places of messages that no longer come.
func (p *keyWait) tidy(now time.Time) {
	for hub, messages := range p.hubs {
		for sequence, at := range messages {
			if now.Sub(at.seen) > forgottenAfter {
				p.free(hub, sequence)
			}
		}
	}
}
