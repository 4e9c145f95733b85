package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/fakeagent"

	"inference-bench/internal/crowd"
	"inference-bench/internal/pause"
	"inference-bench/internal/steady"
	"inference-bench/internal/vitals"
)

const (
	// rate is how many requests a second the unaffected providers get, and
	// starts how many agents of the crowd are started in one: less than the hub
	// registers.
	rate   = 50
	starts = 450
	// warm is how long requests are made before memory is read, rest how long
	// everything rests before it is read again: a full report of presence
	// comes each 10 s.
	warm = 5 * time.Second
	rest = 12 * time.Second
	// quiet is how long requests are made before a cut, and again behind it.
	quiet = 20 * time.Second
	// limit is how long agents may take to be back before that is a failure.
	limit = 2 * time.Minute
	// bare is how many sockets are opened that do not register: fewer than those
	// at which the hub begins to refuse.
	bare = 1_500
)

// memory is what hub and router hold.
type memory struct {
	hub, router     int64
	hubLive, rtLive vitals.Live
}

func (b *bench) readMemory(ctx context.Context) (m memory, err error) {
	m.hub, m.router = b.hub.Resident(), b.router.Resident()
	if m.hub == 0 || m.router == 0 {
		return m, errors.New("the memory of hub and router cannot be read")
	}
	if m.hubLive, err = b.hub.Collect(ctx); err != nil {
		return m, err
	}
	m.rtLive, err = b.router.Collect(ctx)
	return m, err
}

// measureCrowd connects all agents, reads memory, and cuts them off.
func (b *bench) measureCrowd(ctx context.Context) (err error) {
	var figures crowdFigures
	defer func() { figures.fill(b, err) }()
	if err := b.measureFloor(ctx, &figures); err != nil {
		return err
	}
	load, end, err := b.startSteady(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := pause.For(ctx, warm); err != nil {
		return err
	}
	before, err := b.readMemory(ctx)
	if err != nil {
		return err
	}
	b.say("Connecting %d agents ...", b.agents)
	began := time.Now()
	models := make([]string, crowdModels)
	for i := range models {
		models[i] = crowdModel(i)
	}
	c, err := crowd.StartRemote(ctx, b.crowd, b.agents, "-ws", b.ws+"/ws", "-v1", strconv.Itoa(b.v1),
		"-keys", b.keysFile(), "-models", strings.Join(models, ","), "-rate", strconv.Itoa(starts))
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, c.Close())
		}
	}()
	if _, err := c.Await(ctx, b.agents, limit, b.sayCount); err != nil {
		return err
	}
	b.say("  %.0f s", time.Since(began).Seconds())
	if err := b.awaitRouter(ctx); err != nil {
		return err
	}
	if err := pause.For(ctx, rest); err != nil {
		return err
	}
	after, err := b.readMemory(ctx)
	if err != nil {
		return err
	}
	figures.before, figures.after, figures.measured = before, after, true
	b.saveProfile(ctx, b.hub, "heap", "hub-heap")
	b.saveProfile(ctx, b.router, "heap", "router-heap")
	if err := b.cut(ctx, c, load, &figures); err != nil {
		return err
	}
	closed = true
	if err := c.Close(); err != nil {
		return err
	}
	return b.measureBare(ctx, &figures)
}

// measureBare opens sockets on the hub that do not register. The hub has had
// more memory by then: only what is in use behind a garbage collection counts.
func (b *bench) measureBare(ctx context.Context, figures *crowdFigures) (err error) {
	if err := b.hub.AwaitGauge(ctx, "svc_provider_hub_sockets", b.steadyProviders, limit); err != nil {
		return err
	}
	before, err := b.hub.Collect(ctx)
	if err != nil {
		return err
	}
	n := min(bare, b.agents)
	c, err := crowd.StartRemote(ctx, b.crowd, n, "-bare", "-ws", b.ws+"/ws", "-rate", strconv.Itoa(bare))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.Await(ctx, n, time.Minute, b.sayCount); err != nil {
		return err
	}
	// They may stay for 10 s without a registration: it is read at once, and
	// that they are all there.
	after, err := b.hub.Collect(ctx)
	if err != nil {
		return err
	}
	if err := b.hub.AwaitGauge(ctx, "svc_provider_hub_sockets", n+b.steadyProviders, limit); err != nil {
		return err
	}
	figures.bare = float64(after.Heap+after.Stacks-before.Heap-before.Stacks) / 1024 / float64(n)
	return nil
}

// measureFloor connects as many sockets to a server that does nothing with
// them.
func (b *bench) measureFloor(ctx context.Context, figures *crowdFigures) (err error) {
	b.say("Connecting %d bare sockets to wsfloor ...", b.agents)
	before := b.floor.Resident()
	c, err := crowd.StartRemote(ctx, b.crowd, b.agents, "-bare", "-ws", b.floor.Admin, "-rate", "2000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.Await(ctx, b.agents, time.Minute, b.sayCount); err != nil {
		return err
	}
	if err := pause.For(ctx, 2*time.Second); err != nil {
		return err
	}
	figures.floor = float64(b.floor.Resident()-before) / 1024 / float64(b.agents)
	return nil
}

// startSteady connects the providers that are not cut and begins to make
// requests of them.
func (b *bench) startSteady(ctx context.Context) (load *steady.Load, end func(), err error) {
	var agents []*fakeagent.Agent
	leave := func() {
		for _, a := range agents {
			a.Close()
		}
	}
	for i := range b.steadyProviders {
		a, err := fakeagent.Dial(ctx, b.ws+"/ws", fakeagent.Options{
			Key: b.own[i], NodeID: fmt.Sprintf("bench-steady-%d", i), Models: []string{steadyModel}, Capacity: 64,
			Handler: fakeagent.Answer("Hello", " world"),
		})
		if err != nil {
			leave()
			return nil, nil, fmt.Errorf("connect a provider that is not cut: %w", err)
		}
		agents = append(agents, a)
	}
	if err := b.awaitAnswer(ctx, steadyModel); err != nil {
		leave()
		return nil, nil, err
	}
	load = steady.Start(ctx, rate, func(ctx context.Context) error { return b.client.Ask(ctx, b.http, steadyModel) })
	return load, func() {
		load.Stop()
		leave()
	}, nil
}

// awaitAnswer waits until a model is served.
func (b *bench) awaitAnswer(ctx context.Context, model string) error {
	for began := time.Now(); ; {
		err := b.client.Ask(ctx, b.http, model)
		if err == nil {
			return nil
		}
		if time.Since(began) > 20*time.Second {
			return fmt.Errorf("nobody serves %s: %w", model, err)
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitRouter waits until the router's view has every agent, and no session
// that is gone.
func (b *bench) awaitRouter(ctx context.Context) error {
	return b.router.AwaitGauge(ctx, "svc_router_sessions", b.agents+b.steadyProviders, limit)
}

// sayCount shows how many there are.
func (b *bench) sayCount(n int) { b.say("  %d", n) }

// cut breaks all connections of the crowd at once and waits until they are back.
func (b *bench) cut(ctx context.Context, c *crowd.Remote, load *steady.Load, figures *crowdFigures) error {
	b.say("Requests while nothing else happens, %v ...", quiet)
	before := steady.Span{From: time.Now()}
	if err := pause.For(ctx, quiet); err != nil {
		return err
	}
	before.To = time.Now()
	b.say("Cutting %d connections ...", b.agents)
	var profiled sync.WaitGroup
	profiled.Go(func() { b.saveProfile(ctx, b.hub, "profile?seconds=15", "hub-cut-cpu") })
	profiled.Go(func() { b.saveProfile(ctx, b.router, "profile?seconds=15", "router-cut-cpu") })
	during := steady.Span{From: time.Now()}
	then, err := c.Command("cut")
	if err != nil {
		return err
	}
	status, err := c.Await(ctx, b.agents, limit, b.sayCount)
	if err != nil {
		return err
	}
	figures.back = time.Since(during.From)
	if err := b.awaitRouter(ctx); err != nil {
		return err
	}
	during.To = time.Now()
	figures.routed = during.To.Sub(during.From)
	figures.refusals, figures.losses = status.Refusals-then.Refusals, status.Losses-then.Losses
	b.say("  all are back after %.1f s", figures.routed.Seconds())
	profiled.Wait()
	if err := pause.For(ctx, 5*time.Second); err != nil {
		return err
	}
	b.say("Requests while nothing else happens, %v ...", quiet)
	again := steady.Span{From: time.Now()}
	if err := pause.For(ctx, quiet); err != nil {
		return err
	}
	again.To = time.Now()
	load.Stop()
	figures.quiet, figures.during = load.During(before, again), load.During(during)
	var each []int
	figures.slow, figures.last, each = load.Beyond(during, 2*figures.quiet.P99)
	b.say("  slow requests in each second behind the cut: %v", each)
	figures.twice = [2]steady.Figures{load.During(before), load.During(again)}
	figures.resident = b.hub.Resident() + b.router.Resident()
	return nil
}

// saveProfile is for people who look for a reason; nothing depends on it.
func (b *bench) saveProfile(ctx context.Context, p vitals.Process, what, name string) {
	if b.profiles == "" {
		return
	}
	err := os.MkdirAll(b.profiles, 0o700)
	if err == nil {
		err = p.Profile(ctx, what, filepath.Join(b.profiles, name+".pprof"))
	}
	if err != nil {
		b.say("  no profile: %v", err)
	}
}
