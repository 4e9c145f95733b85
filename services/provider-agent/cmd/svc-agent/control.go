package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/services/provider-agent/internal/control"
)

// told has the running agent of this machine do something.
func told(ctx context.Context, c invocation, name string,
	do func(*control.Client, context.Context) (control.State, error)) (*control.Client, control.State, error) {
	cfg, err := c.settings()
	if err != nil {
		return nil, control.State{}, err
	}
	flags := c.flags(name)
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir, "`folder` of the agent's state (SVC_STATE_DIR)")
	if err := c.parse(flags); err != nil {
		return nil, control.State{}, err
	}
	client := control.NewClient(cfg.StateDir)
	state, err := do(client, ctx)
	if errors.Is(err, control.ErrNotRunning) {
		err = fmt.Errorf("%w: nothing answers in %s; -state names another folder", err, cfg.StateDir)
	}
	return client, state, err
}

// pause has the agent take no new requests and stay connected.
func pause(ctx context.Context, c invocation) error {
	_, state, err := told(ctx, c, "pause", (*control.Client).Pause)
	if err != nil {
		return err
	}
	return c.say("paused: no new requests come, and %d are under way; svc-agent resume or a restart ends the pause\n",
		state.Requests.UnderWay)
}

// resume ends a pause.
func resume(ctx context.Context, c invocation) error {
	_, _, err := told(ctx, c, "resume", (*control.Client).Resume)
	if err != nil {
		return err
	}
	return c.say("requests are taken again\n")
}

// drainInterval is how often drain asks whether the agent has ended.
const drainInterval = 500 * time.Millisecond

// drain has the agent end its requests and then itself, and waits for that.
func drain(ctx context.Context, c invocation) error {
	client, state, err := told(ctx, c, "drain", (*control.Client).Drain)
	if err != nil {
		return err
	}
	tick := time.NewTicker(drainInterval)
	defer tick.Stop()
	for last := -1; ; {
		if n := state.Requests.UnderWay; n != last {
			if err := c.say("draining: %d requests are under way\n", n); err != nil {
				return err
			}
			last = n
		}
		select {
		case <-ctx.Done():
			return c.say("the agent goes on draining without this command\n")
		case <-tick.C:
		}
		if state, err = client.State(ctx); err != nil {
			break
		}
	}
	if errors.Is(err, control.ErrNotRunning) {
		return c.say("the agent has ended\n")
	}
	return err
}

// say prints a line for the owner.
func (c invocation) say(format string, args ...any) error {
	if _, err := fmt.Fprintf(c.out, format, args...); err != nil {
		return fmt.Errorf("print the outcome: %w", err)
	}
	return nil
}
