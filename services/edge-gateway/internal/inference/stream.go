package inference

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"svc.internal/pkg/crash"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

const (
	// endWait is how long a hub may take to end a stream whose outcome it told.
	endWait = time.Second
	// hangUpWait is how long it may take to end one that was committed to and
	// is given up: it waits up to 2 s itself for the engine's usage.
	hangUpWait = 3 * time.Second
	// freeTime is how long after its dispatch a client that has seen no content
	// may leave for nothing. The hub holds to the same by its own clock.
	freeTime = time.Second
)

// parting is why this side gives a dispatch up.
type parting uint8

const (
	// gaveUp is an attempt that failed, or that ran out of time.
	gaveUp parting = iota
	// clientLeft is a client that hung up or cannot be written to.
	clientLeft
	// stopped is this process, which did not see the answer to its end.
	stopped
)

// dispatch is one attempt's stream to a hub. The session's goroutine receives
// from it and commits; what ends it from outside may come at any time.
type dispatch struct {
	stream   hubv1.DispatchService_DispatchClient
	cancel   context.CancelFunc
	late     func() bool // the free time is over
	finished bool        // the hub has told the outcome
	failed   bool        // which is that the attempt failed, so that nothing is billed of it
	ended    error       // why the stream has ended; nil while it goes on

	mu        sync.Mutex // gRPC allows no Send beside a CloseSend
	committed bool       // the hub was told that this attempt is the one
	left      bool       // it was told so because the client left, before any content
	over      bool       // given up: it is too late to commit
	silent    bool       // because the hub took too long
	hangUp    *time.Timer
}

var (
	// errNoOutcome is a stream that ended properly and told nothing.
	errNoOutcome = errors.New("the hub ended the dispatch without an outcome")
	// errOver is a commit that comes too late.
	errOver = errors.New("the dispatch was given up")
)

// dispatch begins an attempt. The caller closes it.
func (s *session) dispatch(ctx context.Context, candidate *routerv1.Candidate) (*dispatch, error) {
	hub, err := s.engine.hubs(candidate.GetDispatchAddress())
	if err != nil {
		return nil, err
	}
	// A client that leaves must not cut the stream: a commit that was just
	// sent would be thrown away with it, and the hub would not know that the
	// attempt is to be charged. giveUp ends the stream in good order.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := hub.Dispatch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	open := &hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Open{Open: s.open(candidate)}}
	// After io.EOF the stream itself says what is wrong.
	if err := stream.Send(open); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, err
	}
	crash.At("gateway.dispatched")
	began := s.engine.clock.Now()
	late := func() bool { return s.engine.clock.Now().Sub(began) >= freeTime }
	return &dispatch{stream: stream, cancel: cancel, late: late}, nil
}

// receive waits for the next message. An error tells that none follows.
func (d *dispatch) receive() (*hubv1.DispatchResponse, error) {
	if d.ended != nil {
		return nil, d.ended
	}
	m, err := d.stream.Recv()
	if errors.Is(err, io.EOF) {
		err = errNoOutcome
	}
	d.ended, d.failed = err, d.failed || m.GetFailed() != nil
	return m, err
}

// drain reads the stream to its end and returns why it has ended.
func (d *dispatch) drain() error {
	for d.ended == nil {
		_, _ = d.receive() // what still comes is of no use
	}
	return d.ended
}

// commit tells the hub that this attempt is the one.
func (d *dispatch) commit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return errOver
	}
	d.committed = true
	return d.stream.Send(commitMessage())
}

func commitMessage() *hubv1.DispatchRequest {
	return &hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Commit{Commit: &hubv1.DispatchCommit{}}}
}

// expire gives up a hub that says nothing, unless it was committed to.
func (d *dispatch) expire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.committed || d.over {
		return
	}
	d.over, d.silent = true, true
	d.cancel()
}

// expired reports whether the hub was given up for its silence.
func (d *dispatch) expired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.silent
}

// giveUp begins to end the stream, once. A hub that has heard a commit is given
// time to end the stream itself, after it has read all that was sent to it; any
// other attempt is cut off at once, and so is one that this process gives up,
// which is how the hub tells that from a client who left.
//
// An attempt whose client leaves after the free time is committed to in leaving:
// its provider has worked on the prompt, and the hub bills what is owed for that.
func (d *dispatch) giveUp(why parting) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	d.over = true
	d.left = why == clientLeft && !d.committed && d.late()
	if why == stopped || !d.committed && !d.left {
		d.cancel()
		return
	}
	d.hangUp = time.AfterFunc(hangUpWait, d.cancel)
	// An error means that the stream has ended already.
	if d.left {
		_ = d.stream.Send(commitMessage())
	}
	_ = d.stream.CloseSend()
}

// owed reports whether the hub was asked to bill the prompt of a client that left
// before content, and did not say that nothing is owed.
func (d *dispatch) owed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left && !d.failed
}

// close ends the stream and returns when it has ended. A hub that has told the
// outcome ends it by itself.
func (d *dispatch) close(why parting) {
	defer d.cancel()
	if d.finished {
		timer := time.AfterFunc(endWait, d.cancel)
		defer timer.Stop()
	} else {
		d.giveUp(why)
	}
	_ = d.drain() // however it ends, it is over
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.hangUp != nil {
		d.hangUp.Stop()
	}
}
