// growth measures what one thing that grows does to the cost of a request, on a product that runs in one process on an
// empty directory: how many providers are connected, how many accounts or settled requests the database has, how many
// streams are open, how long answers are. It takes one axis at a time and writes a file of it:
//
//	growth -axis providers -out providers.json ...
//	growth -report [-json] providers.json accounts.json    the tables of what was measured
//
// deploy/dev/bench-growth.sh starts it all.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"inference-bench/internal/admin"
	"inference-bench/internal/growth"
	"inference-bench/internal/proc"
	"inference-bench/internal/vitals"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	b := &bench{}
	var pid int
	var metrics, operators, keys string
	axis := flag.String("axis", "", "what grows: providers, accounts, lines, streams or length")
	brief := flag.Bool("small", false, "the first two steps alone, and short: a smoke run, no figures")
	flag.IntVar(&pid, "pid", 0, "the product's process")
	flag.StringVar(&metrics, "metrics", "", "its metrics and profiles, as http://host:port")
	flag.StringVar(&b.base, "base", os.Getenv("SVC_BASE_URL")+"/v1", "public API, with /v1")
	flag.StringVar(&operators, "admin", os.Getenv("SVC_ADMIN_URL"), "root of the operators' API")
	flag.StringVar(&b.ws, "ws", os.Getenv("SVC_WS_URL"), "where agents connect, without /ws")
	flag.StringVar(&b.database, "database", os.Getenv("SVC_DATABASE_URL"), "the product's PostgreSQL, as its superuser")
	flag.StringVar(&keys, "keys", "", "file with a JSON array of the consumers' keys")
	flag.StringVar(&b.crowd, "crowd", "crowd", "the program that is the idle agents")
	flag.IntVar(&b.serving, "serving", 1, "agents that serve, which are connected already")
	out := flag.String("out", "", "file for what is measured")
	report := flag.Bool("report", false, "measure nothing: print the tables of these files")
	asJSON := flag.Bool("json", false, "with -report: print JSON")
	flag.Parse()
	if *report {
		return show(flag.Args(), *asJSON)
	}
	sizes, err := growth.Sizes(*axis, *brief)
	if err != nil {
		return err
	}
	if b.keys, err = readKeys(keys); err != nil {
		return err
	}
	debug.SetGCPercent(400)
	b.dir = filepath.Dir(*out)
	b.times = whole
	if *brief {
		b.times = short
	}
	b.program = vitals.Process{Pid: pid, Admin: metrics}
	b.group = proc.Group{Roots: []int{pid}, Except: []string{"svc-agent", "tinylm"}}
	b.operator = admin.Client{Base: operators, Token: os.Getenv("SVC_ADMIN_TOKEN")}
	before := proc.LoadAverage()
	measured, err := measure(ctx, b, *axis, sizes)
	if err != nil {
		return err
	}
	measured.Machine = fmt.Sprintf("%s, %d cores, %s, load average %s before, %s after",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), before, proc.LoadAverage())
	text, err := json.Marshal(measured)
	if err != nil {
		return err
	}
	return os.WriteFile(*out, text, 0o600)
}

// stepper measures an axis at one size after the other, the smallest first.
type stepper interface {
	// axis is without its steps.
	axis() growth.Axis
	// step brings the product to a size and measures it.
	step(ctx context.Context, size int) (growth.Step, error)
	// close ends what the steps have started.
	close() error
}

// measure takes the steps of an axis. A step that fails ends the axis, and its note says why.
func measure(ctx context.Context, b *bench, name string, sizes []int) (a growth.Axis, err error) {
	s, err := newStepper(b, name)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	a = s.axis()
	a.Name = name
	if err := b.program.AwaitGauge(ctx, "svc_router_sessions", b.serving, limit); err != nil {
		return a, err
	}
	b.say("Warming up, %v ...", b.times.warmUp)
	if err := b.warm(ctx); err != nil {
		return a, err
	}
	for _, size := range sizes {
		step, err := s.step(ctx, size)
		if ctx.Err() != nil {
			return a, errors.Join(err, ctx.Err())
		}
		step.Size = size
		if err != nil {
			step.Values, step.Note = nil, err.Error()
		}
		a.Steps = append(a.Steps, step)
		b.show(a, step)
		if err != nil {
			break
		}
	}
	return a, nil
}

func newStepper(b *bench, name string) (stepper, error) {
	switch name {
	case growth.Providers:
		return &providers{bench: b}, nil
	case growth.Accounts, growth.Lines:
		return newRows(b, name)
	case growth.Streams:
		return &streams{bench: b}, nil
	case growth.Length:
		return &length{bench: b}, nil
	}
	return nil, fmt.Errorf("axis %s cannot be measured", name)
}

func readKeys(file string) (keys []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-keys: %w", err)
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

// show prints the tables of axes that were measured.
func show(files []string, asJSON bool) error {
	var axes []growth.Axis
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var a growth.Axis
		if err := json.Unmarshal(text, &a); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		axes = append(axes, a)
	}
	if asJSON {
		return growth.JSON(os.Stdout, axes)
	}
	return growth.Text(os.Stdout, axes)
}
