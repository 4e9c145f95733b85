package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"inference-bench/internal/disk"
	"inference-bench/internal/figures"
	"inference-bench/internal/loadgen"
	"inference-bench/internal/plan"
	"inference-bench/internal/proc"
	"inference-bench/internal/record"
)

// rest is how long the machine is left alone after a load, so that what it
// left behind is not measured with the next.
const rest = 300 * time.Millisecond

// runner puts every load on every target.
type runner struct {
	plan     plan.Plan
	out      *record.Writer
	engine   proc.Group
	syncDir  string
	idle     time.Duration
	profiles string
	profiled []string
	kinds    []string
	// warmed are the targets that have had a load.
	warmed map[string]bool
}

func (r *runner) all(ctx context.Context) error {
	if port, err := plan.Port(r.plan.Engine); err == nil {
		if pids, err := proc.Listeners(port); err == nil {
			r.engine.Roots = pids
		}
	}
	if err := r.resting(ctx); err != nil {
		return err
	}
	for _, s := range r.plan.Scenarios {
		for round := range r.plan.RoundsOf(s) {
			if err := r.sync(round); err != nil {
				return err
			}
			for i := range r.plan.Targets {
				t := r.plan.Targets[(i+round)%len(r.plan.Targets)]
				if t.Skips(s) {
					continue
				}
				if ctx.Err() != nil {
					return fmt.Errorf("stopped in %s: %w", s.Name, ctx.Err())
				}
				if err := r.one(ctx, s, t, round); err != nil {
					return err
				}
			}
		}
		if r.profiles != "" && slices.Contains(r.profiled, s.Name) {
			if err := r.profile(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// resting records what targets spend while they are idle, if that was asked for.
func (r *runner) resting(ctx context.Context) error {
	if r.idle == 0 {
		return nil
	}
	spent, err := idleCPU(ctx, r.plan.Targets, r.idle)
	if err != nil {
		return err
	}
	for i, t := range r.plan.Targets {
		fmt.Fprintf(os.Stderr, "    %-12s %-10s %8.2f ms of CPU a second\n", "idle", t.Name, spent[i])
		if err := r.out.Write(record.Record{Target: t.Name, Measure: figures.IdleMeasure, Value: spent[i]}); err != nil {
			return err
		}
	}
	return nil
}

// sync records how long the disk takes, as often as loads run.
func (r *runner) sync(round int) error {
	if r.syncDir == "" {
		return nil
	}
	took, err := disk.SyncP50(r.syncDir)
	if err != nil {
		return fmt.Errorf("measure the disk: %w", err)
	}
	return r.out.Write(record.Record{Target: record.Machine, Round: round, Measure: figures.SyncMeasure,
		Value: float64(took) / float64(time.Microsecond)})
}

// spec is the load of a scenario on a target.
func (r *runner) spec(s plan.Scenario, t plan.Target) (loadgen.Spec, error) {
	group, err := t.Group()
	if err != nil {
		return loadgen.Spec{}, err
	}
	spec := loadgen.Spec{
		Base: t.Base, Key: t.Key, Headers: t.Headers, Mode: s.Mode, Model: s.Model,
		PromptBytes: s.Prompt, Conns: s.Conns, Rate: s.Rate, Warm: s.Warm(),
		Dur: s.Dur(), Enough: s.Enough, MaxDur: s.Max(),
		Events: s.Events, Gap: time.Duration(s.GapMs) * time.Millisecond, Procs: group, Memory: s.Memory,
		Metrics: t.Counted(),
	}
	if t.Name != r.plan.Baseline {
		spec.Mock = r.engine
	}
	if s.ManyKeys {
		spec.Keys = t.Keys
	}
	if !r.warmed[t.Name] {
		spec.Warm = max(spec.Warm, r.plan.FirstWarm())
		r.warmed[t.Name] = true
	}
	return spec, nil
}

// one measures and records. A target that cannot be measured is said and does
// not end the run.
func (r *runner) one(ctx context.Context, s plan.Scenario, t plan.Target, round int) error {
	busy, err := othersLoad(rest)
	if err == nil {
		err = r.out.Write(record.Record{Target: record.Machine, Round: round, Measure: figures.LoadMeasure,
			Value: busy})
	}
	if err != nil {
		return fmt.Errorf("see what else the machine does: %w", err)
	}
	res, err := r.load(ctx, s, t)
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "    %s %s: %v\n", s.Name, t.Name, err)
		return r.out.Write(record.Record{Scenario: s.Name, Target: t.Name, Round: round, Result: &loadgen.Result{Errors: 1,
			FirstError: err.Error()}})
	}
	fmt.Fprintf(os.Stderr,
		"    %-12s %-10s round %d %8.0f req/s %8.0f events/s  p50 %7.0f µs  CPU %6.1f µs/req %5.1f µs/event%s\n",
		s.Name, t.Name, round+1, res.ReqPerSec, res.ChunkPerSec, res.P50, res.CPUPerReq, res.CPUPerChunk, wrong(res))
	return r.out.Write(record.Record{Scenario: s.Name, Target: t.Name, Round: round, Result: &res})
}

func (r *runner) load(ctx context.Context, s plan.Scenario, t plan.Target) (loadgen.Result, error) {
	spec, err := r.spec(s, t)
	if err != nil {
		return loadgen.Result{}, err
	}
	res, err := loadgen.Run(ctx, spec)
	runtime.GC()
	return res, err
}

func wrong(r loadgen.Result) string {
	if r.Errors+r.Short+r.NoUsage == 0 {
		return ""
	}
	return fmt.Sprintf("  errors %d short %d without usage %d %s", r.Errors, r.Short, r.NoUsage, r.FirstError)
}

// profile runs a scenario once more for each kind of profile on each target
// that has profiles, which is not recorded since profiling costs CPU itself.
func (r *runner) profile(ctx context.Context, s plan.Scenario) error {
	if err := os.MkdirAll(r.profiles, 0o750); err != nil {
		return err
	}
	s.DurMs, s.MaxMs = max(s.DurMs, minProfile), 0
	for _, t := range r.plan.Targets {
		if len(t.Pprof) == 0 || t.Skips(s) {
			continue
		}
		for _, kind := range r.kinds {
			if err := r.profileOf(ctx, s, t, kind); err != nil {
				return fmt.Errorf("%s %s: %w", s.Name, t.Name, err)
			}
		}
	}
	return nil
}

// profileOf saves one kind of profile of one target. What cannot be saved is said
// and does not end the run.
func (r *runner) profileOf(ctx context.Context, s plan.Scenario, t plan.Target, kind string) error {
	saved := make(chan error, len(t.Pprof))
	for i, base := range t.Pprof {
		file := filepath.Join(r.profiles, fmt.Sprintf("%s-%s-%d.%s.pprof", s.Name, t.Name, i, kind))
		go func() { saved <- saveProfile(ctx, base, kind, file, s.Warm(), s.Dur()) }()
	}
	_, err := r.load(ctx, s, t)
	for range t.Pprof {
		if failed := <-saved; failed != nil {
			fmt.Fprintf(os.Stderr, "    %s profile of %s: %v\n", kind, t.Name, failed)
		}
	}
	return err
}
