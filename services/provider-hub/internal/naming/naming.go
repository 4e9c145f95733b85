// Package naming keeps a record of engines that call a model otherwise than they
// were asked for: neither by the name that their provider was sent nor by the
// catalog's. It is evidence for operators and a hint for the provider; no traffic
// and no money depends on it, for an engine may have a name of its own for a build.
//
// A Recorder hears of such answers, one at a time, and keeps one line for each
// provider and model however many names there are: the name given last, the first
// and the last time, and how many answers. The lines are written together every
// 10 s, and half a second after a provider and model were heard of for the first
// time, which also makes one line in the log. What could not be written is kept and
// written later.
//
// Bounds: at most 16,384 lines wait; answers beyond are counted as forgotten. The
// log has at most 16,384 lines in a hub's life. A hub that is killed loses what it
// heard since it wrote last, and nothing else; a write whose outcome is not known
// may count its answers twice.
package naming

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/cadence"
)

const (
	writeInterval = 10 * time.Second
	writeDelay    = 500 * time.Millisecond
	writeTime     = 10 * time.Second
	// maxLines bounds the lines that wait, and maxTold those in the log.
	maxLines = 16_384
	maxTold  = 16_384
)

// AnsweredAs is what was heard of one model of one provider. Name is bounded and
// printable; it is what the engine said last.
type AnsweredAs struct {
	Provider    ids.ProviderID
	Model, Name string
	First, Last time.Time
	Answers     int64
}

// Store keeps lines: what it has of the same provider and model stays, and is
// brought up to date.
type Store interface {
	// RecordNames takes lines in order of provider and model, each once. Providers
	// that there are not are passed over.
	RecordNames(ctx context.Context, lines []AnsweredAs) error
}

// of is what a line is about.
type of struct {
	provider ids.ProviderID
	model    string
}

// Recorder hears and writes. It is safe for concurrent use.
type Recorder struct {
	store Store
	clock clock.Clock
	log   *slog.Logger
	wake  chan struct{}

	answers, forgotten atomic.Int64

	writing sync.Mutex // held while lines are written

	mu      sync.Mutex
	pending map[of]AnsweredAs
	told    map[of]struct{}
}

// NewRecorder returns a recorder that has heard nothing.
func NewRecorder(store Store, c clock.Clock, log *slog.Logger) *Recorder {
	return &Recorder{
		store: store, clock: c, log: log, wake: make(chan struct{}, 1),
		pending: map[of]AnsweredAs{}, told: map[of]struct{}{},
	}
}

// Heard hears that an answer of a provider called a model by such a name, which
// must be bounded and printable.
func (r *Recorder) Heard(provider ids.ProviderID, model, name string) {
	r.answers.Add(1)
	now := r.clock.Now()
	at := of{provider, model}
	r.mu.Lock()
	kept := r.keepLocked(at, AnsweredAs{Provider: provider, Model: model, Name: name, First: now, Last: now, Answers: 1})
	_, known := r.told[at]
	fresh := kept && !known && len(r.told) < maxTold
	if fresh {
		r.told[at] = struct{}{}
	}
	r.mu.Unlock()
	if !fresh {
		return
	}
	// The name is the engine's own words, which may be the prompt's: it is for those
	// who are shown the lines, and not for the log.
	r.log.Info("an engine calls a model otherwise than it was asked for", "provider_id", provider.String(), "model", model)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// keepLocked adds to what waits of the same, and is false where there is no room.
func (r *Recorder) keepLocked(at of, l AnsweredAs) bool {
	old, known := r.pending[at]
	switch {
	case known:
		r.pending[at] = old.with(l)
	case len(r.pending) < maxLines:
		r.pending[at] = l
	default:
		r.forgotten.Add(l.Answers)
		return false
	}
	return true
}

// with is both lines as one; the name is that of the later one.
func (l AnsweredAs) with(m AnsweredAs) AnsweredAs {
	both := l
	if !m.Last.Before(l.Last) {
		both.Name, both.Last = m.Name, m.Last
	}
	if m.First.Before(l.First) {
		both.First = m.First
	}
	both.Answers += m.Answers
	return both
}

// Answers counts the answers that were heard of.
func (r *Recorder) Answers() int64 { return r.answers.Load() }

// Forgotten counts those of them that found no room.
func (r *Recorder) Forgotten() int64 { return r.forgotten.Load() }

// Waiting is how many lines wait to be written.
func (r *Recorder) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

// Run writes until ctx ends, and then what is left.
func (r *Recorder) Run(ctx context.Context) error {
	every := time.NewTicker(writeInterval)
	defer every.Stop()
	for cadence.Next(ctx, every.C, r.wake, writeDelay) {
		r.write(ctx)
	}
	r.write(context.WithoutCancel(ctx))
	return nil
}

func (r *Recorder) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if err := r.Write(ctx); err != nil && ctx.Err() != context.Canceled {
		r.log.Warn("what engines call models was not recorded", "error", err)
	}
}

// Write writes what waits, and keeps it where that fails.
func (r *Recorder) Write(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	lines := r.take()
	if len(lines) == 0 {
		return nil
	}
	err := r.store.RecordNames(ctx, lines)
	if err != nil {
		r.restore(lines)
	}
	return err
}

// take takes what waits, in order, so that two hubs do not wait for each other.
func (r *Recorder) take() []AnsweredAs {
	r.mu.Lock()
	pending := r.pending
	r.pending = map[of]AnsweredAs{}
	r.mu.Unlock()
	lines := make([]AnsweredAs, 0, len(pending))
	for _, l := range pending {
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b AnsweredAs) int {
		return cmp.Or(slices.Compare(a.Provider[:], b.Provider[:]), cmp.Compare(a.Model, b.Model))
	})
	return lines
}

func (r *Recorder) restore(lines []AnsweredAs) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range lines {
		r.keepLocked(of{l.Provider, l.Model}, l)
	}
}
