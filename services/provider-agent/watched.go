package provideragent

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/provider-agent/internal/connection"
	"svc.internal/services/provider-agent/internal/control"
)

// watched is what an agent keeps so that its owner can see it on this machine.
type watched struct {
	version, nodeName, hub string
	started                time.Time
	clock                  clock.Clock
	log                    *slog.Logger
	tally                  *control.Tally
	draining               atomic.Bool
	// drain is closed to end Run.
	drain     chan struct{}
	drainOnce sync.Once

	mu     sync.Mutex
	said   time.Time // when a failure was logged last
	unsaid int       // failures that were not logged since
}

func newWatched(version, nodeName, hub string, clock clock.Clock, log *slog.Logger) *watched {
	return &watched{
		version: version, nodeName: nodeName, hub: hub, started: clock.Now(), clock: clock, log: log,
		tally: control.NewTally(), drain: make(chan struct{}),
	}
}

// failuresInterval is the least pause between two failures in the log.
const failuresInterval = time.Second

// watch counts what serve does, and logs failures.
func (w *watched) watch(serve connection.Serve) connection.Serve {
	return func(ctx context.Context, r connection.Request, out io.Writer) connection.Answer {
		w.tally.Begin(r.ModelID)
		answer := serve(ctx, r, out)
		failure, failed := w.tally.End(w.clock.Now(), control.Result{
			RequestID: r.ID, ModelID: r.ModelID, Status: answer.Status, Err: answer.Err, Cancelled: ctx.Err() != nil,
		})
		if failed {
			w.tell(failure)
		}
		return answer
	}
}

// tell logs a failure, unless one was logged just now.
func (w *watched) tell(f control.Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.At.Sub(w.said) < failuresInterval {
		w.unsaid++
		return
	}
	w.log.Warn("a request failed", "model", f.ModelID, "request", f.RequestID, "engine_status", f.Status, "reason",
		f.Reason, "not_logged_before", w.unsaid)
	w.said, w.unsaid = f.At, 0
}

// until returns a context that ends with ctx or by a drain, and the function that frees it.
func (w *watched) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.drain:
			cancel()
		case <-ctx.Done():
			w.draining.Store(true)
		}
	}()
	return ctx, cancel
}

// controlled serves the socket by which the other commands reach the agent. An agent without
// a state folder has none, and a socket that cannot be made costs no request.
func (w *watched) controlled(dir string, agent control.Agent) (stop func()) {
	if dir == "" {
		return func() {}
	}
	server, err := control.Listen(dir, agent, w.log)
	if err != nil {
		w.log.Warn("svc-agent status, pause, resume and drain will not reach this agent", "error", err)
		return func() {}
	}
	return func() {
		if err := server.Close(); err != nil {
			w.log.Warn("the control socket cannot be removed", "error", err)
		}
	}
}
