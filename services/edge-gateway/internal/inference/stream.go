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
	// endWait is how long a hub may take to end a stream whose outcome it has sent.
	endWait = time.Second
	// hangUpWait is how long a hub may take to end a committed stream that is given up:
	// the hub itself waits up to 2 s for the engine's usage.
	hangUpWait = 3 * time.Second
	// freeTime is how long after its dispatch a client that has seen no content may leave
	// for nothing. The hub applies the same time by its own clock. Gateway models have none,
	// because their vendors bill the prompt however early the client leaves.
	freeTime = time.Second
)

// departure is why this side gives a stream up.
type departure uint8

const (
	// gaveUp is an attempt that failed, or that ran out of time.
	gaveUp departure = iota
	// clientLeft is a client that hung up or cannot be written to.
	clientLeft
	// stopped is this process, which did not complete the answer.
	stopped
)

// whyOver returns why a request is over, as far as its client's context shows it. A
// server that ends its requests gives a cause; for a client that left net/http gives
// none.
func whyOver(client context.Context) departure {
	switch {
	case client.Err() == nil:
		return gaveUp
	case errors.Is(context.Cause(client), context.Canceled):
		return clientLeft
	}
	return stopped
}

// hubStream is one attempt's stream to a hub. The request's goroutine receives from it
// and commits. Calls that end it may come from other goroutines at any time.
type hubStream struct {
	stream   hubv1.DispatchService_DispatchClient
	cancel   context.CancelFunc
	clock    clock.Clock
	began    time.Time
	free     time.Duration // how long after began a client that has seen no content leaves for nothing
	finished bool          // the hub has told the outcome
	failed   bool          // which is that the attempt failed, so that nothing is billed of it
	ended    error         // why the stream has ended; nil while it goes on

	mu        sync.Mutex // gRPC allows no Send beside a CloseSend
	committed bool       // the hub was told that this attempt is the one
	left      bool       // it was told so because the client left, before any content
	over      bool       // given up: it is too late to commit
	silent    bool       // because the hub took too long
	hangUp    *time.Timer
}

var (
	// errNoOutcome is a stream that ended properly without an outcome.
	errNoOutcome = errors.New("the hub ended the dispatch without an outcome")
	// errOver is a commit that comes too late.
	errOver = errors.New("the dispatch was given up")
)

// openStream begins an attempt's stream to a hub. The caller closes it. open makes the
// first message once there is a connection, because the message says how much time is left. free
// is how long its client may leave for nothing.
func openStream(
	ctx context.Context, hub hubv1.DispatchServiceClient, clk clock.Clock, free time.Duration,
	open func() *hubv1.DispatchOpen,
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
	err = stream.Send(&hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Open{Open: open()}})
	if err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, err
	}
	crash.At("gateway.dispatched")
	return &hubStream{stream: stream, cancel: cancel, clock: clk, began: began, free: free}, nil
}

// receive waits for the next message. After an error none follows.
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

// commit sends the hub the commit of this attempt.
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

// expire gives up a hub that sends nothing, unless its attempt is committed.
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
func (s *hubStream) late() bool { return s.clock.Now().Sub(s.began) >= s.free }

// giveUp begins to end the stream, once. A hub that has received a commit gets time to
// end the stream itself, after it has read all messages. Any other attempt is cut off at
// once, and so is an attempt that this process gives up, because by that the hub
// distinguishes it from a client that left.
//
// An attempt whose client leaves after its free time is committed as the client leaves: its
// provider has worked on the prompt, and the hub bills what is owed for that.
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

// owed reports whether the hub was asked to bill the prompt of a client that left before
// content, and has not answered that nothing is owed.
func (s *hubStream) owed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left && !s.failed
}

// close ends the stream and returns when it has ended. A hub that has sent the outcome
// ends it by itself.
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
