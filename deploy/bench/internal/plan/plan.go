// Package plan says what a comparison runs: the targets, the scenarios, and
// how often. Targets and scenarios come from JSON files; unknown members are
// refused.
package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"inference-bench/internal/proc"
)

// Target is something that answers the API.
type Target struct {
	Name string `json:"name"`
	Base string `json:"base"`
	Key  string `json:"key,omitempty"`
	// Keys are those of many accounts, for the scenarios that use them.
	Keys    []string          `json:"keys,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Pids are the roots of the process trees that count as this target, and
	// Ports those whose listeners are further roots. Without both it is the
	// listener on the port of Base.
	Pids  []int `json:"pids,omitempty"`
	Ports []int `json:"ports,omitempty"`
	// Except are names of processes that do not count although they are in
	// these trees, with all below them: a provider's agent, an engine.
	Except []string `json:"except,omitempty"`
	// Pprof are the base URLs of its Go profiles and metrics, without /debug/pprof
	// and /metrics.
	Pprof []string `json:"pprof,omitempty"`
	// Metrics are base URLs of all its Go programs, where these are more than those
	// of Pprof: their allocations are counted.
	Metrics []string `json:"metrics,omitempty"`
	// Skip lists scenarios that this target is left out of.
	Skip []string `json:"skip,omitempty"`
}

// Scenario is one load.
type Scenario struct {
	Name   string  `json:"name"`
	Mode   string  `json:"mode"`
	Model  string  `json:"model"`
	Prompt int     `json:"prompt_bytes"`
	Conns  int     `json:"conns"`
	Rate   float64 `json:"rate,omitempty"`
	WarmMs int     `json:"warm_ms"`
	// DurMs is the measured time, which goes on until Enough requests or streamed
	// events have come through, but not beyond MaxMs.
	DurMs  int   `json:"dur_ms"`
	Enough int64 `json:"enough,omitempty"`
	MaxMs  int   `json:"max_ms,omitempty"`
	Events int   `json:"events,omitempty"`
	GapMs  int   `json:"gap_ms,omitempty"`
	// Memory compares the target's memory with and without the load. It is
	// run once, since memory once taken is not given back at once.
	Memory bool `json:"memory,omitempty"`
	// ManyKeys uses the target's keys in turn, where it has some.
	ManyKeys bool `json:"many_keys,omitempty"`
	// Skip lists targets that are left out.
	Skip []string `json:"skip,omitempty"`
	// Extra scenarios run only when they are asked for by name.
	Extra bool `json:"extra,omitempty"`
}

// Plan is everything.
type Plan struct {
	Engine    string `json:"engine"`    // base URL of the engine, for its CPU
	Baseline  string `json:"baseline"`  // target that latency is compared with: the engine itself
	Reference string `json:"reference"` // target that CPU is compared with
	Rounds    int    `json:"rounds"`
	// FirstWarmMs is the least warm-up of the first load of each target.
	FirstWarmMs int        `json:"first_warm_ms"`
	Targets     []Target   `json:"targets"`
	Scenarios   []Scenario `json:"scenarios"`
}

// Read reads a plan.
func Read(file string) (Plan, error) {
	var p Plan
	if err := decode(file, &p); err != nil {
		return Plan{}, err
	}
	if p.Rounds < 1 {
		return Plan{}, fmt.Errorf("%s: rounds must be at least 1", file)
	}
	return p, nil
}

// Add appends the target that a file describes.
func (p *Plan) Add(file string) error {
	var t Target
	if err := decode(file, &t); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Targets, func(x Target) bool { return x.Name == t.Name }) {
		return fmt.Errorf("%s: there is a target %q already", file, t.Name)
	}
	p.Targets = append(p.Targets, t)
	return nil
}

func decode(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Only keeps the targets and scenarios named in comma-separated lists; a name
// that ends with * stands for all that begin so. An empty list of targets
// keeps all, an empty one of scenarios all but the extra ones. A name that
// matches nothing is an error: a typing slip must not look like a measurement.
func (p *Plan) Only(targets, scenarios string) error {
	var errs []error
	if targets != "" {
		want := strings.Split(targets, ",")
		errs = append(errs, missing("target", want, p.Targets, func(t Target) string { return t.Name }))
		p.Targets = slices.DeleteFunc(p.Targets, func(t Target) bool { return !matches(want, t.Name) })
	}
	want := strings.Split(scenarios, ",")
	if scenarios != "" {
		errs = append(errs, missing("scenario", want, p.Scenarios, func(s Scenario) string { return s.Name }))
	}
	p.Scenarios = slices.DeleteFunc(p.Scenarios, func(s Scenario) bool {
		if scenarios == "" {
			return s.Extra
		}
		return !matches(want, s.Name)
	})
	if !slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Name == p.Reference }) {
		p.Reference = "goproxy"
	}
	return errors.Join(errs...)
}

func missing[T any](kind string, want []string, all []T, name func(T) string) error {
	var errs []error
	for _, w := range want {
		if !slices.ContainsFunc(all, func(x T) bool { return matches([]string{w}, name(x)) }) {
			errs = append(errs, fmt.Errorf("there is no %s %q", kind, w))
		}
	}
	return errors.Join(errs...)
}

func matches(want []string, name string) bool {
	return slices.ContainsFunc(want, func(w string) bool {
		prefix, star := strings.CutSuffix(w, "*")
		return name == w || star && strings.HasPrefix(name, prefix)
	})
}

// Shorten multiplies all times by factor, down to a second of measured time.
func (p *Plan) Shorten(factor float64) {
	for i := range p.Scenarios {
		s := &p.Scenarios[i]
		s.WarmMs = max(int(float64(s.WarmMs)*factor), min(s.WarmMs, 300))
		s.DurMs = max(int(float64(s.DurMs)*factor), min(s.DurMs, 1000))
		s.MaxMs = int(float64(s.MaxMs) * factor)
	}
	p.FirstWarmMs = int(float64(p.FirstWarmMs) * factor)
}

// pause is what a load costs beside its own time: connections are made and
// closed, and the machine comes to rest.
const pause = 500 * time.Millisecond

// Time is about how long it takes to run: the least, and the longest if every
// load is slow to come to enough requests.
func (p *Plan) Time() (least, longest time.Duration) {
	least = time.Duration(len(p.Targets)) * p.FirstWarm()
	longest = least
	for _, s := range p.Scenarios {
		for _, t := range p.Targets {
			if !t.Skips(s) {
				rounds := time.Duration(p.RoundsOf(s))
				least += rounds * (s.Warm() + s.Dur() + pause)
				longest += rounds * (s.Warm() + max(s.Dur(), s.Max()) + pause)
			}
		}
	}
	return least, longest
}

// RoundsOf is how often a scenario runs on each target.
func (p *Plan) RoundsOf(s Scenario) int {
	if s.Memory {
		return 1
	}
	return p.Rounds
}

// Skips says whether the target is left out of the scenario.
func (t Target) Skips(s Scenario) bool { return matches(t.Skip, s.Name) || matches(s.Skip, t.Name) }

// FirstWarm is the least warm-up of a target's first load.
func (p *Plan) FirstWarm() time.Duration { return time.Duration(p.FirstWarmMs) * time.Millisecond }

// Counted are the base URLs of the metrics by which allocations are counted.
func (t Target) Counted() []string {
	if len(t.Metrics) > 0 {
		return t.Metrics
	}
	return t.Pprof
}

// Warm is the time before measuring.
func (s Scenario) Warm() time.Duration { return time.Duration(s.WarmMs) * time.Millisecond }

// Dur is the least measured time.
func (s Scenario) Dur() time.Duration { return time.Duration(s.DurMs) * time.Millisecond }

// Max is the longest measured time; 0 is no longer than Dur.
func (s Scenario) Max() time.Duration { return time.Duration(s.MaxMs) * time.Millisecond }

// Group is the target's processes now.
func (t Target) Group() (proc.Group, error) {
	g := proc.Group{Roots: slices.Clone(t.Pids), Except: t.Except}
	ports := t.Ports
	if len(ports) == 0 && len(t.Pids) == 0 {
		port, err := Port(t.Base)
		if err != nil {
			return proc.Group{}, err
		}
		ports = []int{port}
	}
	for _, port := range ports {
		pids, err := proc.Listeners(port)
		if err != nil {
			return proc.Group{}, err
		}
		g.Roots = append(g.Roots, pids...)
	}
	for _, pid := range t.Pids {
		if !proc.Alive(pid) {
			return proc.Group{}, fmt.Errorf("process %d has ended", pid)
		}
	}
	return g, nil
}

// Port is the port that a base URL names.
func Port(base string) (int, error) {
	u, err := url.Parse(base)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Port())
}
