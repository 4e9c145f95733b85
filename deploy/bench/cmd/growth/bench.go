package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"inference-bench/internal/admin"
	"inference-bench/internal/growth"
	"inference-bench/internal/loadgen"
	"inference-bench/internal/pause"
	"inference-bench/internal/proc"
	"inference-bench/internal/sheet"
	"inference-bench/internal/vitals"
)

// The load of requests: an open loop of so many a second on so many connections.
const (
	rate         = 100
	conns        = 64
	requestModel = "mock-t16"
)

// keepsUp is the share of its rate, or of its streams' pace, that a load must reach to go without a note.
const keepsUp = 0.95

// times are how long things take.
type times struct {
	warmUp time.Duration // of the axis
	rest   time.Duration // before idle CPU is read
	idle   time.Duration // in which idle CPU is read
	warm   time.Duration // of a load
	dur    time.Duration // of a load, behind warm
}

// A full report of presence comes each 10 s, so rest and idle each have one.
var (
	whole = times{warmUp: 5 * time.Second, rest: 12 * time.Second, idle: 10 * time.Second, warm: 3 * time.Second,
		dur: 10 * time.Second}
	short = times{warmUp: time.Second, rest: time.Second, idle: 2 * time.Second, warm: time.Second, dur: 2 * time.Second}
)

// bench is the product, and how it is measured.
type bench struct {
	program  vitals.Process
	group    proc.Group // all processes of the product, its database too
	base, ws string
	database string
	operator admin.Client
	keys     []string // of the consumers
	crowd    string   // the program that is the idle agents
	serving  int
	dir      string
	times    times
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "    "+format+"\n", args...)
}

func (b *bench) sayCount(n int) { b.say("  %d", n) }

// show prints a step as soon as it is measured.
func (b *bench) show(a growth.Axis, s growth.Step) {
	var parts []string
	for i, v := range s.Values {
		parts = append(parts, strings.TrimSpace(a.Figures[i].Name+" "+sheet.Number(v)+" "+a.Figures[i].Unit))
	}
	if s.Note != "" {
		parts = append(parts, s.Note)
	}
	b.say("%s %d: %s", a.Name, s.Size, strings.Join(parts, ", "))
}

// load is the load of requests, without its times.
func (b *bench) load() loadgen.Spec {
	return loadgen.Spec{Base: b.base, Keys: b.keys, Mode: "chat", Model: requestModel, PromptBytes: 64, Conns: conns,
		Rate: rate, Procs: b.group}
}

// warm makes requests that are not measured: what the first ones cost is no cost of what grows.
func (b *bench) warm(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	load := b.load()
	load.Dur = b.times.warmUp
	_, err := loadgen.Run(ctx, load)
	return err
}

// resting returns the CPU that the product uses while nobody asks it anything, in seconds a second, after a rest.
func (b *bench) resting(ctx context.Context) (float64, error) {
	if err := pause.For(ctx, b.times.rest); err != nil {
		return 0, err
	}
	began, before := time.Now(), b.group.CPU()
	if err := pause.For(ctx, b.times.idle); err != nil {
		return 0, err
	}
	_, spent := proc.Spent(before, b.group.CPU())
	return spent / time.Since(began).Seconds(), nil
}

// request is what requests cost at a step.
type request struct {
	cpu  float64 // µs a request beyond idle
	p50  float64 // ms
	idle float64 // ms of CPU a second
	note string
}

// requests rests, and then measures the load of requests.
func (b *bench) requests(ctx context.Context) (r request, err error) {
	idle, err := b.resting(ctx)
	if err != nil {
		return r, err
	}
	load := b.load()
	load.Warm, load.Dur = b.times.warm, b.times.dur
	res, err := loadgen.Run(ctx, load)
	if err != nil {
		return r, err
	}
	if res.Requests == 0 {
		return r, errors.New(join("no request was answered", failures(res)))
	}
	note := failures(res)
	if res.ReqPerSec < keepsUp*rate {
		note = join(note, fmt.Sprintf("only %.0f requests a second", res.ReqPerSec))
	}
	return request{cpu: growth.Beyond(res.CPU, idle, res.Seconds, res.Requests), p50: res.P50 / 1e3, idle: idle * 1e3,
		note: note}, nil
}

// failures says in a few words what failed of a load; "" when nothing did.
func failures(r loadgen.Result) string {
	if r.Errors+r.Short+r.NoUsage == 0 {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("errors %d, short %d, without usage %d %s", r.Errors, r.Short, r.NoUsage,
		r.FirstError))
}

func join(notes ...string) string {
	var said []string
	for _, n := range notes {
		if n != "" {
			said = append(said, n)
		}
	}
	return strings.Join(said, "; ")
}
