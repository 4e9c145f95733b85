package events

import (
	"sync"
	"time"

	"svc.internal/pkg/lru"
	"svc.internal/services/verifier/internal/probe"
)

const (
	// warnInterval is the pause between two warnings about one offer.
	warnInterval = time.Hour
	// maxWarned bounds the offers that are remembered; the offer that was warned of longest
	// ago is forgotten first, so it may be warned of sooner.
	maxWarned = 4096
)

// warnings bounds how often a fault of an offer is logged. A provider decides how often its
// engine claims what cannot be, so a line for each would let it fill the log.
type warnings struct {
	mu   sync.Mutex
	said *lru.Map[probe.Offer, *warned]
}

type warned struct {
	at     time.Time
	unsaid int64
}

func newWarnings() *warnings { return &warnings{said: lru.New[probe.Offer, *warned](maxWarned, nil)} }

// due counts a fault of an offer. It reports whether the fault is to be logged, and how many
// were not since the last that was.
func (w *warnings) due(o probe.Offer, now time.Time) (unsaid int64, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.said.Peek(o)
	if known && now.Sub(last.at) < warnInterval {
		last.unsaid++
		return 0, false
	}
	if known {
		unsaid = last.unsaid
	}
	w.said.Add(o, &warned{at: now})
	return unsaid, true
}
