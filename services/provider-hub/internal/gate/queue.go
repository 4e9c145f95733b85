package gate

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/quota"
	"svc.internal/services/provider-hub/internal/session"
)

// errClosed means that the hub takes no registrations any more.
var errClosed = errors.New("the hub takes no registrations")

// queue lets registrations through: none before the hub accepts, then at a steady rate,
// fairly among networks, and few at a time. Agents wait for their answer meanwhile,
// because agents of v1 would take a refusal for the end. It is safe for concurrent use.
type queue struct {
	registrar Registrar
	clock     clock.Clock
	slots     chan struct{}
	opened    chan struct{} // closed when the hub accepts
	closed    chan struct{} // closed when it drains

	mu   sync.Mutex
	pace quota.Bucket
	// lines are the registrations that wait, by network, without empty lines. order is
	// the networks in turn. armed reports that a call is due.
	lines map[netip.Addr][]*waiter
	order []netip.Addr
	armed bool
	once  struct{ open, close sync.Once }
}

func newQueue(cfg Config, r Registrar, c clock.Clock) *queue {
	return &queue{
		registrar: r, clock: c, slots: make(chan struct{}, cfg.MaxAdmissions),
		opened: make(chan struct{}), closed: make(chan struct{}),
		pace: quota.NewBucket(cfg.HandshakeRate, cfg.HandshakeBurst, c.Now()), lines: map[netip.Addr][]*waiter{},
	}
}

func (q *queue) open()  { q.once.open.Do(func() { close(q.opened) }) }
func (q *queue) close() { q.once.close.Do(func() { close(q.closed) }) }

// over reports whether the queue is closed.
func (q *queue) over() bool {
	select {
	case <-q.closed:
		return true
	default:
		return false
	}
}

// turn waits until one more registration from a network may be looked up. It fails with
// errClosed, or as ctx does.
func (q *queue) turn(ctx context.Context, from netip.Addr) error {
	select {
	case <-q.opened:
	case <-q.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	w := q.stand(from)
	if w == nil {
		return ctx.Err()
	}
	select {
	case <-w.called:
		return nil
	case <-q.closed:
		q.leave(w)
		return errClosed
	case <-ctx.Done():
		q.leave(w)
		return ctx.Err()
	}
}

// waiter is a registration that waits for its turn.
type waiter struct {
	from   netip.Addr
	called chan struct{} // closed when it is its turn
}

// stand takes a place in the line of a network; nil when it is its turn at once.
func (q *queue) stand(from netip.Addr) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 && q.pace.Take(q.clock.Now()) {
		return nil
	}
	w := &waiter{from: from, called: make(chan struct{})}
	if len(q.lines[from]) == 0 {
		q.order = append(q.order, from)
	}
	q.lines[from] = append(q.lines[from], w)
	q.armLocked()
	return w
}

// leave gives up a place, or a turn that came meanwhile, because a registration that does
// not wait must not make others wait longer.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[w.from]
	at := slices.Index(line, w)
	if at < 0 {
		q.pace.GiveBack()
		return
	}
	q.lineLocked(w.from, slices.Delete(line, at, at+1))
	if len(line) == 1 {
		q.order = slices.DeleteFunc(q.order, func(a netip.Addr) bool { return a == w.from })
	}
}

// lineLocked keeps the registrations of a network that wait.
func (q *queue) lineLocked(from netip.Addr, waiters []*waiter) {
	if len(waiters) == 0 {
		delete(q.lines, from)
		return
	}
	q.lines[from] = waiters
}

// call calls as many as may be looked up, one of each network in turn, so that a network
// with many that wait is no faster than one with a few.
func (q *queue) call() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	for len(q.order) > 0 && q.pace.Take(q.clock.Now()) {
		from := q.order[0]
		line := q.lines[from]
		q.order = q.order[1:]
		close(line[0].called)
		if q.lineLocked(from, line[1:]); len(line) > 1 {
			q.order = append(q.order, from)
		}
	}
	q.armLocked()
}

// minCall is the least pause between calls.
const minCall = time.Millisecond

// armLocked schedules the next call for when there is a token.
func (q *queue) armLocked() {
	if q.armed || len(q.order) == 0 {
		return
	}
	q.armed = true
	time.AfterFunc(max(q.pace.Next(q.clock.Now()), minCall), q.call)
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

// admit looks up a credential, in turn with others, within timeout.
func (q *queue) admit(ctx context.Context, timeout time.Duration, c session.Credential) (session.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		return session.Grant{}, ctx.Err()
	}
	defer func() { <-q.slots }()
	return q.registrar.Admit(ctx, c)
}
