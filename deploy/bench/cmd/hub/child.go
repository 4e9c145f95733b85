package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"inference-bench/internal/crowd"
)

// child is a process that answers each line it is told with one.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd}
	cmd.Stderr = os.Stderr
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start agents: %w", err)
	}
	return c, nil
}

func (c *child) ask(line string) ([]byte, error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return nil, fmt.Errorf("tell agents: %w", err)
	}
	if !c.answers.Scan() {
		return nil, errors.Join(errors.New("the agents' process does not answer"), c.answers.Err())
	}
	return c.answers.Bytes(), nil
}

// close ends the process and all its agents.
func (c *child) close() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// niceness is how far the crowd yields to what is measured: its agents would
// have machines of their own.
const niceness = "10"

// startCrowd starts the process of the crowd with these flags.
func (b *bench) startCrowd(ctx context.Context, agents int, flags ...string) (*child, error) {
	args := append([]string{"-n", niceness, b.crowd, "-agents", strconv.Itoa(agents)}, flags...)
	return startChild(exec.CommandContext(ctx, "nice", args...)) //nolint:gosec // a program of ours
}

// tell gives the crowd a command and returns how things stand.
func (c *child) tell(command string) (s crowd.Status, err error) {
	answer, err := c.ask(command)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(answer, &s)
}

// await waits until n agents are registered, and shows how it goes.
func (b *bench) await(ctx context.Context, c *child, n int, limit time.Duration) (crowd.Status, error) {
	began, shown := time.Now(), time.Now()
	for {
		s, err := c.tell("status")
		if err != nil || s.Registered >= n {
			return s, err
		}
		if time.Since(began) > limit {
			return s, fmt.Errorf("%d of %d agents are registered after %v; the first fault: %s", s.Registered, n, limit, s.Fault)
		}
		if time.Since(shown) >= 5*time.Second {
			shown = time.Now()
			b.say("  %d", s.Registered)
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return s, err
		}
	}
}
