package relay

import (
	"context"
	"errors"
	"io"
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// endWait is how long a hub may take to end a stream whose outcome it told.
const endWait = time.Second

// dispatch is one attempt's stream to a hub.
type dispatch struct {
	stream   hubv1.DispatchService_DispatchClient
	cancel   context.CancelFunc
	messages chan *hubv1.DispatchResponse // closed when the stream has ended
	err      error                        // why; to be read after that
	finished bool                         // the hub has told the outcome
}

// errNoOutcome is a stream that ended properly and told nothing.
var errNoOutcome = errors.New("the hub ended the dispatch without an outcome")

// dispatch begins an attempt. The caller closes it.
func (s *session) dispatch(ctx context.Context, candidate *routerv1.Candidate) (*dispatch, error) {
	hub, err := s.engine.hubs(candidate.GetDispatchAddress())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
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
	return d.stream.Send(&hubv1.DispatchRequest{Message: &hubv1.DispatchRequest_Commit{Commit: &hubv1.DispatchCommit{}}})
}

// close ends the stream, at once unless the hub is about to end it anyway, and
// waits for the receiving goroutine.
func (d *dispatch) close() {
	if d.finished {
		timer := time.AfterFunc(endWait, d.cancel)
		defer timer.Stop()
	} else {
		d.cancel()
	}
	for range d.messages {
	}
	d.cancel()
}
