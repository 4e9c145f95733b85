// Package directory remembers which provider ids exist, so that a pin to a provider that
// is away does not ask a hub each time.
//
// An answer is kept for PositiveFor or NegativeFor. Providers are never deleted, so only
// a negative answer can become wrong. At most MaxEntries answers are kept. When there is
// no room for another, all answers are dropped, which costs one question for each id.
// Callers that ask for the same id at the same time share one question.
package directory

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"svc.internal/pkg/clock"
)

const (
	// MaxEntries bounds the answers kept.
	MaxEntries = 10_000
	// PositiveFor is how long the answer that a provider exists is kept.
	PositiveFor = 10 * time.Minute
	// NegativeFor is how long the answer that there is no such provider is kept.
	NegativeFor = 10 * time.Second
	// askTimeout bounds one question.
	askTimeout = time.Second
)

// Ask reports whether a provider exists.
type Ask func(ctx context.Context, provider string) (bool, error)

// Directory is safe for concurrent use.
type Directory struct {
	ask   Ask
	clock clock.Clock
	group singleflight.Group

	mu      sync.Mutex
	answers map[string]answer
}

type answer struct {
	exists bool
	until  time.Time
}

// New returns a directory that knows nothing yet.
func New(ask Ask, c clock.Clock) *Directory {
	return &Directory{ask: ask, clock: c, answers: map[string]answer{}}
}

// Exists answers from memory, or asks. An error means that the question has no answer
// now.
func (d *Directory) Exists(ctx context.Context, provider string) (bool, error) {
	if a, ok := d.remembered(provider); ok {
		return a, nil
	}
	done := d.group.DoChan(provider, func() (any, error) {
		// A caller that leaves must not fail the others that wait for its question.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		exists, err := d.ask(ctx, provider)
		if err == nil {
			d.remember(provider, exists)
		}
		return exists, err
	})
	select {
	case result := <-done:
		exists, _ := result.Val.(bool)
		return exists, result.Err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (d *Directory) remembered(provider string) (exists, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.answers[provider]
	return a.exists, ok && d.clock.Now().Before(a.until)
}

func (d *Directory) remember(provider string, exists bool) {
	lasting := NegativeFor
	if exists {
		lasting = PositiveFor
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.answers) >= MaxEntries {
		clear(d.answers)
	}
	d.answers[provider] = answer{exists: exists, until: d.clock.Now().Add(lasting)}
}
