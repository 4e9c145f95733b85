package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"svc.internal/services/proving/internal/chaos/caller"
	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/fleet"
)

const (
	// callBound is the longest that a call may take: the time that gateways allow a
	// request, and the longest pause of a process.
	callBound = 60 * time.Second
	// servedBound is how long the fleet may take to serve again after a fault.
	servedBound = 90 * time.Second
)

// maxUntrue bounds the kept calls that were not answered with the truth.
const maxUntrue = 50

// watch is called for every call while faults come and go.
type watch struct {
	market   *market
	gateways int

	mu     sync.Mutex
	afters map[*after]struct{}
	// breaks are the times in which a gateway may lose its connections. An end of zero
	// means that the time has not ended.
	breaks []span
	// hurting counts the faults under way; spans are the times with any.
	hurting int
	spans   []span

	calls, answered             int64
	callsHurting, answeredThere int64
	late                        int
	untrue                      []string
	misled                      int
}

// span is a time; an end of zero means that it has not ended.
type span struct{ begin, end time.Time }

func (s span) meets(from, to time.Time) bool {
	return s.begin.Before(to) && (s.end.IsZero() || s.end.After(from))
}

func newWatch(m *market) *watch {
	return &watch{market: m, gateways: len(m.fleet.Gateways()), afters: map[*after]struct{}{}}
}

// after waits for the fleet to serve again after a fault.
type after struct {
	watch  *watch
	began  time.Time
	breaks bool
	at     int // its place in watch.breaks
	missed map[int]bool
	served chan struct{}
	last   time.Time
}

// begin notes that a fault is done now.
func (w *watch) begin(f plan.Fault) *after {
	a := &after{watch: w, began: time.Now(), missed: map[int]bool{}, served: make(chan struct{})}
	for i := range w.gateways {
		a.missed[i] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.afters[a] = struct{}{}
	if w.hurting++; w.hurting == 1 {
		w.spans = append(w.spans, span{begin: a.began})
	}
	if f.Cell.Program == fleet.Gateway && f.Cell.Kind == plan.Kill || f.Cell.Kind == plan.Dark {
		a.breaks, a.at = true, len(w.breaks)
		w.breaks = append(w.breaks, span{begin: a.began})
	}
	return a
}

// wait returns when every gateway has given a whole answer to a call that was sent after
// the fault, and how long that took.
func (a *after) wait(ctx context.Context) (time.Duration, bool) {
	timer := time.NewTimer(servedBound - time.Since(a.began))
	defer timer.Stop()
	select {
	case <-a.served:
		a.watch.mu.Lock()
		defer a.watch.mu.Unlock()
		return a.last.Sub(a.began), true
	case <-timer.C:
	case <-ctx.Done():
	}
	return time.Since(a.began), false
}

// end is called once for each begin.
func (a *after) end() {
	w := a.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	delete(w.afters, a)
	if a.breaks {
		w.breaks[a.at].end = now
	}
	if w.hurting--; w.hurting == 0 {
		w.spans[len(w.spans)-1].end = now
	}
}

// ended notes a call.
func (w *watch) ended(c caller.Call) {
	w.market.clients.Add(c.Client)
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.afters {
		if c.Complete && c.SentAt.After(a.began) && a.missed[c.Gateway] {
			delete(a.missed, c.Gateway)
			a.last = c.EndedAt
			if len(a.missed) == 0 {
				close(a.served)
			}
		}
	}
	if !c.Left {
		w.countLocked(c)
	}
	if wrong := w.untruthLocked(c); wrong != "" {
		if w.misled++; len(w.untrue) < maxUntrue {
			w.untrue = append(w.untrue, fmt.Sprintf("%s (request %q, %s of %s at gateway %d, from %s for %v): %s",
				c.Nonce, c.RequestID, c.Model, c.Key, c.Gateway+1, c.SentAt.Format("15:04:05.000"),
				c.Took().Round(time.Millisecond), wrong))
		}
	}
}

func (w *watch) countLocked(c caller.Call) {
	w.calls++
	answered := c.Answered()
	if answered {
		w.answered++
	}
	for i := len(w.spans) - 1; i >= 0 && i >= len(w.spans)-5; i-- {
		if w.spans[i].meets(c.SentAt, c.EndedAt) {
			w.callsHurting++
			if answered {
				w.answeredThere++
			}
			return
		}
	}
}

// untruthLocked says what is wrong about a client's answer; empty for nothing.
func (w *watch) untruthLocked(c caller.Call) string {
	switch {
	case c.Took() >= callBound:
		w.late++
		return fmt.Sprintf("took the %v that a call may", callBound)
	case c.Left || c.Complete:
		return ""
	case c.Err != nil:
		if w.brokenLocked(c.SentAt, c.EndedAt) {
			return ""
		}
		return "the connection broke and no gateway had: " + c.Err.Error()
	case c.ErrorEvent || c.Status >= 500:
		if c.ErrorCode == "" {
			return fmt.Sprintf("an error of status %d without a code", c.Status)
		}
		return ""
	case c.Answered() && c.ErrorCode != "":
		return ""
	case c.Status == http.StatusOK:
		return "an answer that is neither whole nor an error"
	default:
		return fmt.Sprintf("is blamed with %d %s", c.Status, c.ErrorCode)
	}
}

// brokenLocked reports whether a gateway may have lost connections at a time. The end of
// a gateway is seen a moment later.
func (w *watch) brokenLocked(from, to time.Time) bool {
	for _, s := range w.breaks {
		if s.meets(from.Add(-time.Second), to.Add(time.Second)) {
			return true
		}
	}
	return false
}
