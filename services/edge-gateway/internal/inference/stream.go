package inference

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	hubv1 "svc.internal/proto/svc/hub/v1"
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

// departure is why this side gives a stream up.
type departure uint8

const (
	// gaveUp is an attempt that failed, or that ran out of time.
	gaveUp departure = iota
	// clientLeft is a client that hung up or cannot be written to.
	clientLeft
	// stopped is this process, which did not see the answer to its end.
	stopped
)

// whyOver is why a request is over, as far as its client's context tells. A server that ends its requests
// does so with a cause; for a client that left net/http has none.
func whyOver(client context.Context) departure {
	switch {
	case client.Err() == nil:
		return gaveUp
	case errors.Is(context.Cause(client), context.Canceled):
		return clientLeft
	}
	return stopped
}

// hubStream is one attempt's stream to a hub. The request's goroutine receives from it and commits; what
// ends it from outside may come at any time.
type hubStream struct {
	stream   hubv1.DispatchService_DispatchClient
	cancel   context.CancelFunc
	clock    clock.Clock
	began    time.Time
	finished bool  // the hub has told the outcome
	failed   bool  // which is that the attempt failed, so that nothing is billed of it
	ended    error // why the stream has ended; nil while it goes on

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

// openStream begins an attempt's stream to a hub. The caller closes it.
func openStream(
	ctx context.Context, hub hubv1.DispatchServiceClient, clk clock.Clock, open *hubv1.DispatchOpen,
) (*hubStream, error) {
	// A client that leaves must not cut the stream: a commit that was just
	// sent would be thrown away with it, and the hub would not know that the
	// attempt is to be charged. giveUp ends the stream in good order.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := hub.Dispatch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	began := clk.Now() // before the hub hears of the request, which may be before Send returns
	// After io.EOF the stream itself says what is wrong.
	err = stream.Send(&hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Open{Open: open}})
	if err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, err
	}
	crash.At("gateway.dispatched")
	return &hubStream{stream: stream, cancel: cancel, clock: clk, began: began}, nil
}

// receive waits for the next message. An error tells that none follows.
func (s *hubStream) receive() (*hubv1.DispatchResponse, error) {
	if s.ended != nil {
		return nil, s.ended
	}
	m, err := s.stream.Recv()
	if errors.Is(err, io.EOF) {
		err = errNoOutcome
	}
	s.ended, s.failed = err, s.failed || m.GetFailed() != nil
	return m, err
}

// drain reads the stream to its end and returns why it has ended.
func (s *hubStream) drain() error {
	for s.ended == nil {
		_, _ = s.receive() // what still comes is of no use
	}
	return s.ended
}

// commit tells the hub that this attempt is the one.
func (s *hubStream) commit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errOver
	}
	s.committed = true
	return s.stream.Send(commitMessage())
}

func commitMessage() *hubv1.DispatchRequest {
	return &hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Commit{Commit: &hubv1.DispatchCommit{}}}
}

// expire gives up a hub that says nothing, unless it was committed to.
func (s *hubStream) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed || s.over {
		return
	}
	s.over, s.silent = true, true
	s.cancel()
}

// expired reports whether the hub was given up for its silence.
func (s *hubStream) expired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

// late reports whether a client that leaves now, before any content, pays its prompt.
func (s *hubStream) late() bool { return s.clock.Now().Sub(s.began) >= freeTime }

// giveUp begins to end the stream, once. A hub that has heard a commit is given
// time to end the stream itself, after it has read all that was sent to it; any
// other attempt is cut off at once, and so is one that this process gives up,
// which is how the hub tells that from a client who left.
//
// An attempt whose client leaves after the free time is committed to in leaving:
// its provider has worked on the prompt, and the hub bills what is owed for that.
func (s *hubStream) giveUp(why departure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	s.left = why == clientLeft && !s.committed && s.late()
	if why == stopped || !s.committed && !s.left {
		s.cancel()
		return
	}
	s.hangUp = time.AfterFunc(hangUpWait, s.cancel)
	// An error means that the stream has ended already.
	if s.left {
		_ = s.stream.Send(commitMessage())
	}
	_ = s.stream.CloseSend()
}

// owed reports whether the hub was asked to bill the prompt of a client that left
// before content, and did not say that nothing is owed.
func (s *hubStream) owed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left && !s.failed
}

// close ends the stream and returns when it has ended. A hub that has told the
// outcome ends it by itself.
func (s *hubStream) close(why departure) {
	defer s.cancel()
	if s.finished {
		timer := time.AfterFunc(endWait, s.cancel)
		defer timer.Stop()
	} else {
		s.giveUp(why)
	}
	_ = s.drain() // however it ends, it is over
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.hangUp != nil {
		s.hangUp.Stop()
	}
}
