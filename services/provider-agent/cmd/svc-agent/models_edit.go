package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/control"
	"svc.internal/services/provider-agent/internal/service"
)

// addModel adds a model to models.json. It refuses a model that the catalog does not have.
func addModel(ctx context.Context, c invocation, cfg environment, m provideragent.Model, unchecked bool) error {
	if !unchecked {
		refused, err := strangers(ctx, cfg, []provideragent.Model{m})
		if err != nil {
			return fmt.Errorf("the catalog was not asked for %s: %w; -unchecked adds the model all the same", m.ModelID, err)
		}
		if why := refused[m.ModelID]; why != "" {
			return fmt.Errorf("%s is not added: %s", m.ModelID, why)
		}
	}
	if err := provideragent.AddModel(cfg.Models, m); err != nil {
		return err
	}
	if err := c.say("%s is in %s.\n", m.ModelID, cfg.Models); err != nil {
		return err
	}
	findings, err := provideragent.Check(ctx, []provideragent.Model{m}, provideragent.Deps{})
	if err == nil && findings[0].Fault != "" {
		fmt.Fprintf(c.diagnostics, "The engine does not serve it yet: %s\n", service.Clean(findings[0].Fault, maxSentences))
	}
	return c.takenUp(ctx, cfg, m.ModelID, true)
}

// removeModel removes a model from models.json.
func removeModel(ctx context.Context, c invocation, cfg environment, id string) error {
	if err := provideragent.RemoveModel(cfg.Models, id); err != nil {
		return err
	}
	if err := c.say("%s is no longer in %s.\n", service.Clean(id, maxCell), cfg.Models); err != nil {
		return err
	}
	return c.takenUp(ctx, cfg, id, false)
}

const (
	// takeUpPatience is how long the command waits for the running agent, which looks at models.json
	// every 2 s and then asks the catalog. takeUpInterval is the pause between two looks at the agent.
	takeUpPatience = 10 * time.Second
	takeUpInterval = 250 * time.Millisecond
)

// takenUp prints whether the running agent has taken the change up: whether it offers the model.
func (c invocation) takenUp(ctx context.Context, cfg environment, id string, offered bool) error {
	ctx, cancel := context.WithTimeout(ctx, takeUpPatience)
	defer cancel()
	client := control.NewClient(cfg.StateDir)
	tick := time.NewTicker(takeUpInterval)
	defer tick.Stop()
	for {
		state, err := client.State(ctx)
		if err != nil && ctx.Err() == nil {
			return c.say("No agent runs here: svc-agent run reads the file.\n")
		}
		has := slices.ContainsFunc(state.Models, func(m control.Model) bool { return m.ModelID == id })
		if err == nil && has == offered {
			return c.say("The running agent has taken it up.\n")
		}
		select {
		case <-ctx.Done():
			return c.say("The running agent has not taken it up yet; svc-agent status shows its models.\n")
		case <-tick.C:
		}
	}
}
