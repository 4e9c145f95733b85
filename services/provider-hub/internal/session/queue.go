package session

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"svc.internal/pkg/clock"
)

// errClosed tells a registration that waits that the server takes no more.
var errClosed = errors.New("the server takes no registrations")

// queue lets registrations through: none before the hub accepts, then at a
// steady rate, and few at a time. Agents wait for their answer meanwhile, and
// those who know no better would take a refusal for the end. It is safe for
// concurrent use.
type queue struct {
	registrar Registrar
	clock     clock.Clock
	slots     chan struct{}
	opened    chan struct{} // closed when the hub accepts
	closed    chan struct{} // closed when it drains

	mu   sync.Mutex
	pace bucket
	once struct{ open, close sync.Once }
}

func newQueue(cfg Config, r Registrar, c clock.Clock) *queue {
	return &queue{
		registrar: r, clock: c, slots: make(chan struct{}, cfg.MaxAdmissions),
		opened: make(chan struct{}), closed: make(chan struct{}),
		pace: newBucket(cfg.HandshakeRate, cfg.HandshakeBurst, c.Now()),
	}
}

func (q *queue) open()  { q.once.open.Do(func() { close(q.opened) }) }
func (q *queue) close() { q.once.close.Do(func() { close(q.closed) }) }

// over tells whether the queue is closed.
func (q *queue) over() bool {
	select {
	case <-q.closed:
		return true
	default:
		return false
	}
}

// turn waits until one more registration may go on. It fails with errClosed, or
// as ctx does.
func (q *queue) turn(ctx context.Context) error {
	select {
	case <-q.opened:
	case <-q.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	q.mu.Lock()
	wait, _ := q.pace.reserve(q.clock.Now(), math.MaxInt64) // there are not more than wait at the door
	q.mu.Unlock()
	err := q.pause(ctx, wait)
	if err != nil {
		// Whoever does not wait must not make others wait longer.
		q.mu.Lock()
		q.pace.giveBack()
		q.mu.Unlock()
	}
	return err
}

// pause waits as long as the queue is open.
func (q *queue) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-timer.C:
		return nil
	case <-q.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit looks a credential up, in turn with others, within timeout.
func (q *queue) admit(ctx context.Context, timeout time.Duration, c Credential) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		return Grant{}, ctx.Err()
	}
	defer func() { <-q.slots }()
	return q.registrar.Admit(ctx, c)
}
