package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"inference-bench/internal/admin"
	"inference-bench/internal/crowd"
	"inference-bench/internal/growth"
)

const (
	// crowdModels are the models of the idle agents, two of which each offers. They are not what the load asks for.
	crowdModels = 20
	// starts is how many agents are started in a second: less than the hub registers.
	starts = 450
	// limit is how long agents may take to come or to go.
	limit = 5 * time.Minute
	// modelContext is what models take, in tokens.
	modelContext = 131_072
)

// providers is the axis of connected agents, each of a provider of its own, every second of dialect v1.
type providers struct {
	*bench
	idle    *crowd.Remote // of the last step
	keys    []string
	without float64 // idle CPU without any of them, ms a second
	known   bool
}

func (p *providers) axis() growth.Axis {
	return growth.Axis{Judged: 1, Figures: []growth.Figure{{Name: "CPU a request", Unit: "µs"}, {Name: "p50", Unit: "ms"},
		{Name: "idle CPU", Unit: "ms/s"}, {Name: "of it an agent", Unit: "µs/s"}},
		Title: fmt.Sprintf("idle agents connected, each of a provider of its own; %d requests a second to one that serves",
			rate)}
}

func (p *providers) step(ctx context.Context, size int) (s growth.Step, err error) {
	if err := p.first(ctx); err != nil {
		return s, err
	}
	if err := p.close(); err != nil {
		return s, err
	}
	p.say("Making %d providers ...", size-len(p.keys))
	made, err := p.operator.Providers(ctx, "growth", len(p.keys), size, p.sayCount)
	if err != nil {
		return s, err
	}
	p.keys = append(p.keys, made...)
	if err := p.connect(ctx, size); err != nil {
		return s, err
	}
	r, err := p.requests(ctx)
	if err != nil {
		return s, err
	}
	status, err := p.idle.Command("status")
	if err != nil {
		return s, err
	}
	if status.Losses > 0 {
		r.note = join(r.note, fmt.Sprintf("%d connections lost: %s", status.Losses, status.Fault))
	}
	each := (r.idle - p.without) * 1e3 / float64(size)
	return growth.Step{Values: []float64{r.cpu, r.p50, r.idle, each}, Note: r.note}, nil
}

// first makes the models and reads the idle CPU without agents, once.
func (p *providers) first(ctx context.Context) error {
	if p.known {
		return nil
	}
	for i := range crowdModels {
		if err := p.operator.PutModel(ctx, admin.Model{ID: crowdModel(i), ContextLength: modelContext}); err != nil {
			return fmt.Errorf("put a model into the catalog: %w", err)
		}
	}
	idle, err := p.resting(ctx)
	if err != nil {
		return err
	}
	p.without, p.known = idle*1e3, true
	return nil
}

// connect starts the agents and waits until the router knows them all, and none of before.
func (p *providers) connect(ctx context.Context, size int) error {
	if err := p.program.AwaitGauge(ctx, "svc_router_sessions", p.serving, limit); err != nil {
		return err
	}
	file := filepath.Join(p.dir, "crowd-keys")
	if err := os.WriteFile(file, []byte(strings.Join(p.keys, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	models := make([]string, crowdModels)
	for i := range models {
		models[i] = crowdModel(i)
	}
	p.say("Connecting %d agents ...", size)
	var err error
	p.idle, err = crowd.StartRemote(ctx, p.crowd, size, "-ws", p.ws+"/ws", "-v1", strconv.Itoa(size/2), "-keys", file,
		"-models", strings.Join(models, ","), "-rate", strconv.Itoa(starts))
	if err != nil {
		return err
	}
	if _, err := p.idle.Await(ctx, size, limit, p.sayCount); err != nil {
		return err
	}
	return p.program.AwaitGauge(ctx, "svc_router_sessions", size+p.serving, limit)
}

func (p *providers) close() error {
	if p.idle == nil {
		return nil
	}
	idle := p.idle
	p.idle = nil
	return idle.Close()
}

func crowdModel(i int) string { return fmt.Sprintf("growth-crowd-%02d", i) }
