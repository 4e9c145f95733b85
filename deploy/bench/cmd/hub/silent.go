package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"inference-bench/internal/halfopen"
	"inference-bench/internal/pause"
	"inference-bench/internal/sheet"
)

// Agents that go silent: idle, asked behind it, and serving before it. Those of
// an even number speak v2.
const (
	idleAgents    = 12
	askedAgents   = 6
	servingAgents = 6
	// stagger spreads the idle ones over the hub's interval of pings.
	stagger = 1300 * time.Millisecond
	// resolution is as exact as the figures are taken.
	resolution = 100 * time.Millisecond
)

func silentAgents() int { return idleAgents + askedAgents + servingAgents }

func silentModel(i int) string { return fmt.Sprintf("bench-silent-%02d", i) }

// found is how long the hub took to find out about silent agents.
type found struct {
	mu    sync.Mutex
	took  map[string][]time.Duration
	fault error
}

func (f *found) note(what string, took time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.fault = err
		return
	}
	f.took[what] = append(f.took[what], took)
}

// measureSilent has agents go silent.
func (b *bench) measureSilent(ctx context.Context) (err error) {
	f := &found{took: map[string][]time.Duration{}}
	defer func() { f.fill(b, err) }()
	agents := make([]*halfopen.Agent, 0, silentAgents())
	defer func() {
		for _, a := range agents {
			a.Close()
		}
	}()
	b.say("%d agents go silent, about 40 s ...", silentAgents())
	for i := range silentAgents() {
		connect := halfopen.ConnectV2
		if i%2 == 1 {
			connect = halfopen.ConnectV1
		}
		a, err := connect(ctx, b.wsOf(i), b.own[b.steadyProviders+wideAgents+i], silentModel(i))
		if err != nil {
			return err
		}
		agents = append(agents, a)
	}
	if err := pause.For(ctx, 2*time.Second); err != nil { // until the router knows all
		return err
	}
	request := func(ctx context.Context, model string) error { return b.client.Ask(ctx, b.http, model) }
	var wg sync.WaitGroup
	for i, a := range agents {
		wg.Go(func() {
			switch {
			case i < idleAgents:
				if pause.For(ctx, time.Duration(i)*stagger) == nil {
					took, err := a.Idle(ctx)
					f.note("idle", took, err)
				}
			case i < idleAgents+askedAgents:
				took, err := a.Asked(ctx, request)
				f.note("asked", took, err)
			default:
				took, err := a.Serving(ctx, request)
				f.note("serving", took, err)
			}
		})
	}
	wg.Wait()
	return f.fault
}

// wsOf is where agent i connects: that of v1 puts /ws behind it by itself.
func (b *bench) wsOf(i int) string {
	if i%2 == 1 {
		return b.ws
	}
	return b.ws + "/ws"
}

func (f *found) fill(b *bench, failure error) {
	for _, row := range []struct {
		what, figure string
		gate         float64
	}{
		{"idle", "found while idle, the slowest", 35},
		{"serving", "found with a request under way, the slowest", 5},
		{"asked", "found when a request comes to it, the slowest", 5},
	} {
		all := f.took[row.what]
		note := ""
		if len(all) > 0 {
			note = fmt.Sprintf("%d agents: %.3f to %.3f s", len(all), slices.Min(all).Seconds(), slices.Max(all).Seconds())
		} else if failure != nil {
			note = failure.Error()
		}
		var slowest *float64
		if len(all) > 0 {
			slowest = new(slices.Max(all).Round(resolution).Seconds())
		}
		b.sheet.Add(sheet.Row{Part: "half open", Figure: row.figure, Unit: "s", Value: slowest, Gate: new(row.gate),
			Note: note})
	}
}
