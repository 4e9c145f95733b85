// Package naming keeps a record of engines that call a model by a name that is neither
// the catalog's, nor the name that their provider was sent, nor the name that their
// provider declared. The record is evidence for operators and a hint for the provider. No
// traffic, status or money depends on it, because an engine may have a name of its own
// for a build.
//
// A Recorder hears of such answers one at a time. It keeps one line for each provider and
// model, however many names there are: the last name, the first and the last time, and
// the number of answers. All lines are written every 10 s, and half a second after a
// provider and model were first heard of, which also makes one line in the log. Lines
// that could not be written are kept and written later.
//
// Bounds: at most 16,384 lines wait, and further answers are counted as forgotten. The
// log has at most 16,384 such lines in a hub's life. A hub that is killed loses only what
// it heard since its last write. A write whose outcome is not known may count its answers
// twice.
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
	// maxLines bounds the lines that wait, and maxTold the lines in the log.
	maxLines = 16_384
	maxTold  = 16_384
)

// AnsweredAs is what was heard of one model of one provider. Name is the engine's last
// name for it, bounded and printable.
type AnsweredAs struct {
	Provider    ids.ProviderID
	Model, Name string
	First, Last time.Time
	Answers     int64
}

// Store keeps lines. A line that is there for the same provider and model is brought up
// to date.
type Store interface {
	// RecordNames takes lines in the order of provider and model, each pair once. Lines
	// of unknown providers are skipped.
	RecordNames(ctx context.Context, lines []AnsweredAs) error
}

// of is what a line is about.
type of struct {
	provider ids.ProviderID
	model    string
}

// Recorder gathers and writes lines. It is safe for concurrent use.
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

// Heard notes that an answer of a provider called a model by a name, which must be
// bounded and printable.
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
	// The name is the engine's own text and may repeat the prompt. So it is shown to
	// operators and the provider, and is not in the log.
	r.log.Info("an engine calls a model otherwise than it was asked for", "provider_id", provider.String(), "model", model)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// keepLocked adds a line to the line that waits for the same pair, and reports whether
// there was room.
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

// with joins two lines. The name is that of the later line.
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

// Forgotten counts the answers that found no room.
func (r *Recorder) Forgotten() int64 { return r.forgotten.Load() }

// Waiting is how many lines wait to be written.
func (r *Recorder) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

// Run writes until ctx ends, and once more then.
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
		r.log.Warn("the names that engines gave models were not recorded", "error", err)
	}
}

// Write writes the lines that wait, and keeps them when the write fails.
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

// take takes the lines that wait, in order, so that two hubs do not wait for each other's
// locks.
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
