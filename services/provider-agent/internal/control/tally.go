package control

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode"
)

const (
	// MaxFailures is how many failures are kept.
	MaxFailures = 16
	// maxReason bounds the reason of a failure, and maxName a name in it, in characters.
	maxReason = 300
	maxName   = 200
)

// Tally counts requests by model. It also keeps the models that are no longer offered, which
// are few. It is safe for concurrent use.
type Tally struct {
	mu       sync.Mutex
	models   map[string]*Counts
	failures []Failure // the oldest first
}

// NewTally returns an empty tally.
func NewTally() *Tally { return &Tally{models: map[string]*Counts{}} }

// Begin counts a request as under way.
func (t *Tally) Begin(modelID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ofLocked(modelID).UnderWay++
}

// Result says how a request ended.
type Result struct {
	RequestID, ModelID string
	// Status is the status of the engine's answer, 0 where the engine did not answer. Err is nil
	// where the answer ended by itself.
	Status int
	Err    error
	// Cancelled reports that nobody wanted the answer any more.
	Cancelled bool
}

// End counts the end of a request that was begun, and reports whether it failed. The reason
// of the failure quotes no answer.
func (t *Tally) End(at time.Time, r Result) (failure Failure, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := t.ofLocked(r.ModelID)
	counts.UnderWay--
	switch {
	case r.Cancelled:
		counts.Cancelled++
		return Failure{}, false
	case r.Err == nil && r.Status < http.StatusBadRequest:
		counts.Served++
		return Failure{}, false
	}
	counts.Failed++
	failure = Failure{At: at.UTC(), ModelID: clean(r.ModelID, maxName), RequestID: clean(r.RequestID, maxName),
		Status: r.Status, Reason: fmt.Sprintf("the engine answers with status %d", r.Status)}
	if r.Err != nil {
		failure.Reason = clean(r.Err.Error(), maxReason)
	}
	t.failures = append(t.failures, failure)
	if len(t.failures) > MaxFailures {
		t.failures = slices.Delete(t.failures, 0, 1)
	}
	return failure, true
}

// Of returns the counts of a model.
func (t *Tally) Of(modelID string) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if counts := t.models[modelID]; counts != nil {
		return *counts
	}
	return Counts{}
}

// All returns the counts over all models, and the last failures, the newest first.
func (t *Tally) All() (Counts, []Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sum Counts
	for _, c := range t.models {
		sum.UnderWay += c.UnderWay
		sum.Served += c.Served
		sum.Failed += c.Failed
		sum.Cancelled += c.Cancelled
	}
	failures := append([]Failure{}, t.failures...)
	slices.Reverse(failures)
	return sum, failures
}

func (t *Tally) ofLocked(modelID string) *Counts {
	counts := t.models[modelID]
	if counts == nil {
		counts = &Counts{}
		t.models[modelID] = counts
	}
	return counts
}

// clean keeps the characters that can be shown in one line.
func clean(text string, maxRunes int) string {
	out := make([]rune, 0, min(len(text), maxRunes))
	for _, r := range text {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar && len(out) < maxRunes {
			out = append(out, r)
		}
	}
	return string(out)
}
