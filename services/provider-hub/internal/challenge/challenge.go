// Package challenge puts one challenge of the verifier to one session, and passes on what
// comes back with its times, as it is.
//
// An inference goes out as a consumer's request does, under a new request id and without
// a proof, so that no agent makes a work receipt of it. A task (session.Task) goes out as
// a message of its own. Nothing is rewritten, metered, billed, journalled or reported as
// an attempt, so a challenge leaves no trace in money, health or statistics.
//
// A challenge takes a slot as a request does, and loses it as a request does: an agent of
// v2 is told to cancel, and an agent of v1 keeps the slot until it has ended the answer.
// A challenge runs in its caller's goroutine. A caller that reads slowly stalls this
// challenge alone, and its slowness is not held against the provider: the challenge then
// fails with rate_limit_exceeded, and so does one for which the hub has no room.
//
// Times are those of the hub's clock, and count from the moment at which the hub begins to
// write the challenge. An agent cannot put that moment off. It could put off the last byte,
// by the credit that it grants, or by reading its socket slowly. Finish.Written says how
// long the last byte took. An answer that begins before the last byte was sent is invalid,
// and so is its whole.
//
// Bounds: 64 challenges on a hub, session.MaxChallenges on a session, 600 s each, 16 MiB of
// an answer in at most 8,192 chunks of at most 1 MiB. The bodies of all challenges, with
// the bytes that wait for callers, are 256 MiB at most, of which a provider's have an
// eighth; answers that wait in their sessions count with those of requests. Order.Check has
// the bounds of what is asked.
package challenge

import (
	"context"
	"io"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/quota"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	// MaxChallenges bounds the challenges under way on a hub.
	MaxChallenges = 64
	// MaxBytes bounds the bodies of all challenges under way, with the bytes of answers
	// that wait for callers. One provider has an eighth, which a body and an answer of the
	// largest size fit into.
	MaxBytes = 256 << 20
	// MaxRoundTrip bounds the round trip that is told. An agent that answers every ping
	// late has no more time for a challenge than a machine on the other side of the earth.
	MaxRoundTrip = 500 * time.Millisecond
)

// Sessions finds the session that an order names.
type Sessions interface {
	Find(provider ids.ProviderID, node string, epoch int64) (*session.Session, bool)
}

// Runner runs challenges. It is safe for concurrent use.
type Runner struct {
	sessions Sessions
	ended    func(*Order, *Finish)
	clock    clock.Clock
	random   io.Reader
	room     *quota.Budget

	mu       sync.Mutex
	open     bool
	underWay int
	running  sync.WaitGroup
	abort    chan struct{} // closed when challenges must end at once
	aborted  bool
}

// New returns a runner that takes no challenges until Open. ended hears of every challenge
// that had an end, and must not block. random makes request ids.
func New(sessions Sessions, ended func(*Order, *Finish), c clock.Clock, random io.Reader) *Runner {
	return &Runner{
		sessions: sessions, ended: ended, clock: c, random: random, room: quota.NewBudget(MaxBytes),
		abort: make(chan struct{}),
	}
}

// Open begins to take challenges.
func (r *Runner) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

// StopAccepting lets no further challenge begin: Run fails with hub_draining.
func (r *Runner) StopAccepting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = false
}

// Drain takes no further challenges. It returns when the challenges under way have ended
// or ctx has.
func (r *Runner) Drain(ctx context.Context) error {
	r.StopAccepting()
	done := make(chan struct{})
	go func() {
		r.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Abort ends the challenges under way.
func (r *Runner) Abort() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.aborted {
		r.aborted = true
		close(r.abort)
	}
}

// enter gives a challenge its place, which leave gives back.
func (r *Runner) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.open:
		return fault.New(fault.Unavailable, fault.HubDraining, "this hub takes no new challenges")
	case r.underWay >= MaxChallenges:
		return tooMany("this hub has too many challenges under way")
	}
	r.underWay++
	r.running.Add(1)
	return nil
}

func (r *Runner) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay--
	r.running.Done()
}

// Run runs a challenge to its end. An error before the first chunk says why the challenge
// did not begin. A later error says that the caller is at fault or the hub has no room,
// so that nothing follows for the provider.
func (r *Runner) Run(ctx context.Context, o *Order, caller Caller) (*Finish, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	held := &holding{room: r.room, provider: o.Provider}
	defer held.giveAll()
	if !held.take(len(o.Body)) {
		return nil, tooMany("this hub has no room for the challenge")
	}
	s, ok := r.sessions.Find(o.Provider, o.Node, o.Epoch)
	if !ok {
		return nil, gone()
	}
	request, err := ids.NewRequest(r.clock.Now(), r.random)
	if err != nil {
		return nil, err
	}
	stream, err := s.Open(o.request(request.String()))
	if err != nil {
		return nil, refused(err)
	}
	defer stream.Close(true)
	c := run{clock: r.clock, abort: r.abort, order: o, caller: caller, stream: stream, held: held,
		lastData: r.clock.Now()}
	f, err := c.wait(ctx)
	if err != nil {
		return nil, err
	}
	f.Dialect, f.RoundTrip = s.Link()
	f.RoundTrip = min(f.RoundTrip, MaxRoundTrip)
	r.ended(o, f)
	return f, nil
}
