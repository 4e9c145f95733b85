package relay

import (
	"context"
	"errors"
	"io"
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
)

// dispatch is one attempt's stream to a hub.
type dispatch struct {
	stream    hubv1.DispatchService_DispatchClient
	cancel    context.CancelFunc
	messages  chan *hubv1.DispatchResponse // closed when the stream has ended
	err       error                        // why; to be read after that
	finished  bool                         // the hub has told the outcome
	committed bool                         // the hub was told that this attempt is the one
}

// errNoOutcome is a stream that ended properly and told nothing.
var errNoOutcome = errors.New("the hub ended the dispatch without an outcome")

// dispatch begins an attempt. The caller closes it.
func (s *session) dispatch(ctx context.Context, candidate *routerv1.Candidate) (*dispatch, error) {
	hub, err := s.engine.hubs(candidate.GetDispatchAddress())
	if err != nil {
		return nil, err
	}
	// A client that leaves must not cut the stream: a commit that was just
	// sent would be thrown away with it, and the hub would not know that the
	// attempt is to be charged. close ends the stream in good order.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := hub.Dispatch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	d := &dispatch{stream: stream, cancel: cancel, messages: make(chan *hubv1.DispatchResponse, queueLength)}
	open := &hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Open{Open: s.open(candidate)}}
	// After io.EOF the stream itself says what is wrong.
	if err := stream.Send(open); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return nil, err
	}
	crash.At("gateway.dispatched")
	go d.receive(ctx)
	return d, nil
}

func (d *dispatch) receive(ctx context.Context) {
	defer close(d.messages)
	for {
		m, err := d.stream.Recv()
		if err != nil {
			d.err = err
			if errors.Is(err, io.EOF) {
				d.err = errNoOutcome
			}
			return
		}
		select {
		case d.messages <- m:
		case <-ctx.Done():
			d.err = ctx.Err()
			return
		}
	}
}

// commit tells the hub that this attempt is the one.
func (d *dispatch) commit() error {
	d.committed = true
	return d.stream.Send(&hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Commit{Commit: &hubv1.DispatchCommit{}}})
}

// close ends the stream and waits for the receiving goroutine. A hub that has
// heard a commit is given time to end the stream itself, after it has read all
// that was sent to it; any other attempt is cut off at once, and so is one that
// this process gives up, which is how the hub tells that from a client who left.
func (d *dispatch) close(stopped bool) {
	defer d.cancel()
	wait := time.Duration(0)
	switch {
	case d.finished:
		wait = endWait
	case stopped:
	case d.committed:
		wait = hangUpWait
		// An error means that the stream has ended already.
		_ = d.stream.CloseSend()
	}
	timer := time.AfterFunc(wait, d.cancel)
	defer timer.Stop()
	for range d.messages {
	}
}
