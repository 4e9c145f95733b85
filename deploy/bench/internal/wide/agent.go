package wide

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"svc.internal/pkg/fakeagent"
)

// server is the agent's side.
type server struct {
	burst atomic.Int64 // bytes that the last burst has sent
}

// Serve is an agent that offers the models, in a process of its own. It answers
// each line of in with how many bytes the last burst has sent, and ends with it.
func Serve(ctx context.Context, wsURL, providerKey string, models []string, in io.Reader, out io.Writer) error {
	s := &server{}
	agent, err := fakeagent.Dial(ctx, wsURL, fakeagent.Options{
		Key: providerKey, NodeID: "bench-wide", Models: models, Capacity: 128, Handler: s.handle,
	})
	if err != nil {
		return fmt.Errorf("connect an agent of many streams: %w", err)
	}
	defer agent.Close()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if _, err := fmt.Fprintln(out, s.burst.Load()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// handle serves a request as its model says. Its errors mean that the request
// or the connection has ended, which the consumer sees.
func (s *server) handle(r *fakeagent.Request) {
	switch r.Open.GetModelId() {
	case Paced:
		_ = paced(r)
	case Burst:
		_ = s.bursts(r)
	default:
		_ = r.Whole("ok", 10, 1)
	}
}

// paced goes on until nobody reads it any more.
func paced(r *fakeagent.Request) error {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := r.Text("word "); err != nil {
				return r.End(0, false)
			}
		case <-r.Cancelled():
			return r.End(0, false)
		}
	}
}

// bursts sends as much as it has credit for.
func (s *server) bursts(r *fakeagent.Request) error {
	text := strings.Repeat("word ", 400)
	s.burst.Store(0)
	for {
		if err := r.Text(text); err != nil {
			return r.End(0, false)
		}
		s.burst.Add(int64(len(text)))
	}
}
