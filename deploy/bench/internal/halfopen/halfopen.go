// Package halfopen measures how soon a hub finds out that an agent is gone
// without a word: its machine lost power, or a network drops what it carries.
// The agents here go silent: what they send is dropped and what they receive is
// neither read nor answered, but nothing is closed, so that only the hub's own
// patience ends the connection.
package halfopen

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/fakeagent"
)

// line is a connection that can go silent.
type line struct {
	net.Conn
	silent atomic.Bool
	ended  chan struct{} // closed when the peer has closed it
	once   sync.Once
}

// Read drops what comes to a silent line.
func (l *line) Read(p []byte) (int, error) {
	for {
		n, err := l.Conn.Read(p)
		if err != nil {
			l.once.Do(func() { close(l.ended) })
			return n, err
		}
		if !l.silent.Load() {
			return n, nil
		}
	}
}

// Write drops what a silent line is to send.
func (l *line) Write(p []byte) (int, error) {
	if l.silent.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
}

// Agent is one agent that will go silent.
type Agent struct {
	model string
	line  *line
	asked <-chan struct{} // closed when it has a request
	close func()
}

// ConnectV2 registers an agent of dialect v2 that offers one model and never
// answers.
func ConnectV2(ctx context.Context, wsURL, key, model string) (*Agent, error) {
	dialled := make(chan *line, 1)
	asked := make(chan struct{})
	var once sync.Once
	agent, err := fakeagent.Dial(ctx, wsURL, fakeagent.Options{
		Key: key, NodeID: "bench-silent", Models: []string{model}, NetDial: dial(dialled),
		Handler: func(*fakeagent.Request) { once.Do(func() { close(asked) }) },
	})
	if err != nil {
		return nil, fmt.Errorf("connect an agent that goes silent: %w", err)
	}
	return &Agent{model: model, line: <-dialled, asked: asked, close: agent.Close}, nil
}

// ConnectV1 is the same in dialect v1.
func ConnectV1(ctx context.Context, wsURL, key, model string) (*Agent, error) {
	dialled := make(chan *line, 1)
	asked := make(chan struct{})
	var once sync.Once
	agent := fakeagent.StartV1(fakeagent.V1Options{
		URL: wsURL, Key: key, NodeName: "bench-silent", Models: []string{model}, NetDial: dial(dialled),
		Handler: func(*fakeagent.V1Request) { once.Do(func() { close(asked) }) },
	})
	if err := agent.AwaitRegistered(ctx); err != nil {
		agent.Stop()
		return nil, fmt.Errorf("connect an agent that goes silent: %w", err)
	}
	return &Agent{model: model, line: <-dialled, asked: asked, close: agent.Stop}, nil
}

// dial gives the first line to whoever waits for it.
func dial(dialled chan<- *line) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l := &line{Conn: conn, ended: make(chan struct{})}
		select {
		case dialled <- l:
		default:
		}
		return l, nil
	}
}

// Close ends the agent.
func (a *Agent) Close() { a.close() }

// longest is how long the hub may take at most before it counts as blind.
const longest = 2 * time.Minute

// found waits for the hub to close a silent line and returns how long that
// took.
func (a *Agent) found(ctx context.Context, since time.Time) (time.Duration, error) {
	late := time.NewTimer(longest)
	defer late.Stop()
	select {
	case <-a.line.ended:
		return time.Since(since), nil
	case <-late.C:
		return 0, fmt.Errorf("a silent connection still stands after %v", longest)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Idle goes silent while nothing is asked of the agent.
func (a *Agent) Idle(ctx context.Context) (time.Duration, error) {
	a.line.silent.Store(true)
	return a.found(ctx, time.Now())
}

// Asked goes silent, and then request, which must ask for the agent's model, is
// made. The time begins with the request.
func (a *Agent) Asked(ctx context.Context, request func(context.Context, string) error) (time.Duration, error) {
	a.line.silent.Store(true)
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = request(ctx, a.model) }() // it fails: nobody answers
	return a.found(ctx, began)
}

// Serving has request made, and goes silent when the agent has it.
func (a *Agent) Serving(ctx context.Context, request func(context.Context, string) error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- request(ctx, a.model) }()
	select {
	case <-a.asked:
	case err := <-failed:
		return 0, fmt.Errorf("a request did not get to the agent: %w", err)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	a.line.silent.Store(true)
	return a.found(ctx, time.Now())
}
