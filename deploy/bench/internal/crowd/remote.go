package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"inference-bench/internal/child"
)

// niceness is how far the process yields to what is measured: its agents would have machines of their own.
const niceness = "10"

// Remote is a crowd in a process of its own, which is the program cmd/crowd.
type Remote struct{ process *child.Child }

// StartRemote starts the process with so many agents and these flags.
func StartRemote(ctx context.Context, program string, agents int, flags ...string) (*Remote, error) {
	args := append([]string{"-n", niceness, program, "-agents", strconv.Itoa(agents)}, flags...)
	process, err := child.Start(exec.CommandContext(ctx, "nice", args...)) //nolint:gosec // a program of ours
	if err != nil {
		return nil, err
	}
	return &Remote{process}, nil
}

// Command gives the crowd a command and returns how things stand.
func (r *Remote) Command(command string) (s Status, err error) {
	answer, err := r.process.Ask(command)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(answer, &s)
}

// The pauses of Await between two looks, and between two calls of shown.
const (
	look = 50 * time.Millisecond
	show = 5 * time.Second
)

// Await waits until n agents are registered, limit at most. shown is called now and then with how many are.
func (r *Remote) Await(ctx context.Context, n int, limit time.Duration, shown func(registered int)) (Status, error) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	began, last := time.Now(), time.Now()
	for {
		s, err := r.Command("status")
		if err != nil || s.Registered >= n {
			return s, err
		}
		if time.Since(began) > limit {
			return s, fmt.Errorf("%d of %d agents are registered after %v; the first fault: %s", s.Registered, n, limit,
				s.Fault)
		}
		if time.Since(last) >= show {
			last = time.Now()
			shown(s.Registered)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// Close ends the process and all its agents.
func (r *Remote) Close() error { return r.process.Close() }
