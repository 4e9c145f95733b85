// Package serve runs the long-lived parts of a process: gRPC and HTTP servers
// with the interceptors that every service shares, the in-process channel that
// replaces sockets where services live together, and Run, which starts parts,
// waits for the first that fails, and stops them in order.
//
// Bounds: a gRPC message is at most MaxMessageBytes; an HTTP header at most
// 64 KiB, due in 10 s; a call without a deadline gets DefaultTimeout.
package serve

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Part is one long-lived part of a process.
type Part struct {
	// Name is the part's name in the log.
	Name string
	// Run works until ctx ends, and returns nil once it has stopped. An earlier return
	// stops the whole process.
	Run func(ctx context.Context) error
	// StopTimeout bounds how long a stop may take; 0 means 30 s.
	StopTimeout time.Duration
}

type running struct {
	part   Part
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Run starts the parts in order and blocks until ctx ends or a part returns. Then it
// stops them one by one in reverse order, so that a part may rely on the parts before it
// until it has stopped. It returns what made it stop, joined with the errors of stopping;
// nil when ctx ended and all parts stopped in time.
func Run(ctx context.Context, parts ...Part) error {
	ended := make(chan *running, len(parts))
	all := make([]*running, 0, len(parts))
	for _, part := range parts {
		// A part outlives ctx until its turn to stop comes.
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := &running{part: part, cancel: cancel, done: make(chan struct{})}
		all = append(all, r)
		go func() {
			r.err = part.Run(partCtx)
			close(r.done)
			ended <- r
		}()
	}
	var cause error
	select {
	case <-ctx.Done():
	case r := <-ended:
		if r.err == nil {
			r.err = errEarly
		}
		cause = fmt.Errorf("%s: %w", r.part.Name, r.err)
		r.err = nil
	}
	errs := []error{cause}
	for i := len(all) - 1; i >= 0; i-- {
		errs = append(errs, all[i].stop())
	}
	return errors.Join(errs...)
}

var errEarly = errors.New("ended by itself")

func (r *running) stop() error {
	limit := r.part.StopTimeout
	if limit == 0 {
		limit = 30 * time.Second
	}
	r.cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		return fmt.Errorf("%s did not stop within %v", r.part.Name, limit)
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		return fmt.Errorf("%s: %w", r.part.Name, r.err)
	}
	return nil
}
