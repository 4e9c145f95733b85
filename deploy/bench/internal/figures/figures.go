// Package figures works out of raw results the figures that a decision hangs
// on. A figure is a median over the rounds; latency is what the target adds to
// the engine's own in the same round; CPU also stands as a ratio to a reference,
// which is the median of the rounds' own ratios.
package figures

import (
	"fmt"
	"slices"

	"inference-bench/internal/loadgen"
	"inference-bench/internal/record"
)

// Names of targets that figures and gates know.
const (
	Standalone = "standalone"
	Fleet      = "fleet"
	Grouped    = "grouped"
	Mono       = "wsmono"
	Split      = "wssplit"
	Ledger     = "ledger"
	Hub        = "hub"
)

// Figure is one thing that is measured.
type Figure struct {
	ID, Title string
	Unit      Unit
	// Ratio says that its ratio to the reference is what counts.
	Ratio bool
	// Syncs are the flushes to disk that the product's path waits for, which
	// the figure is also given without.
	Syncs int
	// Untimed figures are counts and sizes: what else the machine does changes
	// nothing about them.
	Untimed bool
	// Hidden figures serve others and are not shown.
	Hidden bool

	of func(source, string) record.Series
}

// Unit is what a figure counts.
type Unit string

// The units.
const (
	Micros    Unit = "µs"
	Millis    Unit = "ms"
	KiB       Unit = "KiB"
	PerSecond Unit = "/s"
	CPUShare  Unit = "ms/s"
	Share     Unit = "of 1"
	Count     Unit = ""
)

// source is where figures come from.
type source struct {
	set      record.Set
	baseline string
}

// ledgerProcesses do a fleet's bookkeeping.
var ledgerProcesses = []string{"postgres", "billing-ledger", "settlement"}

// All are the figures, in the order in which they are shown.
func All() []Figure {
	return slices.Concat(cpu(), latency(), sizes(), parts())
}

func cpuReq(r *loadgen.Result) float64   { return r.CPUPerReq }
func cpuEvent(r *loadgen.Result) float64 { return r.CPUPerChunk }

// cpu are figures of CPU time, as ratios to the reference.
func cpu() []Figure {
	return []Figure{
		{ID: "cpu_small", Title: "CPU per request, small, 16 connections", Unit: Micros, Ratio: true,
			of: load("chat-16", cpuReq)},
		{ID: "cpu_many", Title: "CPU per request, small, 64 keys of 32 accounts", Unit: Micros, Ratio: true,
			of: load("chat-16-many", cpuReq)},
		{ID: "open_300", Title: "CPU per request, open loop at 300/s", Unit: Micros, Ratio: true, of: open("open-300")},
		{ID: "open_900", Title: "CPU per request, open loop at 900/s", Unit: Micros, Ratio: true, of: open("open-900")},
		{ID: "cpu_32k", Title: "CPU per request, 32 KB body, 16 connections", Unit: Micros, Ratio: true,
			of: load("body32k-16", cpuReq)},
		{ID: "event_64", Title: "CPU per streamed event, 64 streams at 20 ms", Unit: Micros, Ratio: true,
			of: load("live20-64", cpuEvent)},
		{ID: "event_512", Title: "CPU per streamed event, 512 streams at 20 ms", Unit: Micros, Ratio: true,
			of: load("live20-512", cpuEvent)},
		{ID: "idle_cpu", Title: "CPU while idle", Unit: CPUShare, of: measure(IdleMeasure)},
	}
}

// latency are figures of what a target adds to the engine's time.
func latency() []Figure {
	return []Figure{
		{ID: "added_p50", Title: "Added latency p50, one connection", Unit: Micros, Syncs: 2,
			of: added("chat-1", func(r *loadgen.Result) float64 { return r.P50 })},
		{ID: "first_token", Title: "Added time to first token p50, 64 streams", Unit: Micros, Syncs: 1,
			of: added("first-64", func(r *loadgen.Result) float64 { return r.TTFT50 })},
		{ID: "nominal_2000", Title: "Share of nominal rate, 2,000 streams at 20 ms", Unit: Share,
			of: load("live20-2000", func(r *loadgen.Result) float64 { return r.NominalRatio })},
	}
}

// sizes are figures of memory.
func sizes() []Figure {
	return []Figure{
		{ID: "memory", Title: "Memory per open stream, 512 streams", Unit: KiB, Untimed: true,
			of: load("streams-mem", func(r *loadgen.Result) float64 { return r.MemPerStream() / 1024 })},
		{ID: "idle_socket", Title: "Memory per idle provider socket", Unit: KiB, Untimed: true,
			of: measure("idle_socket_kib")},
		{ID: "allocs_small", Title: "Allocations per request, small, 16 connections", Unit: Count, Untimed: true,
			of: allocations("chat-16", func(r *loadgen.Result) uint64 { return r.Requests })},
		{ID: "allocs_event", Title: "Allocations per streamed event, 64 streams", Unit: Count, Untimed: true,
			of: allocations("live20-64", func(r *loadgen.Result) uint64 { return r.Chunks })},
	}
}

// parts are figures of parts of the product, and those that serve others.
func parts() []Figure {
	return []Figure{
		{ID: "rate", Title: "Requests per second, small, 16 connections", Unit: PerSecond,
			of: load("chat-16", func(r *loadgen.Result) float64 { return r.ReqPerSec })},
		{ID: "admissions", Title: "Ledger: admissions over 32 accounts", Unit: PerSecond,
			of: measure("Admissions/accounts=32/callers=64 admissions/s")},
		{ID: "admissions_hot", Title: "Ledger: admissions on one account", Unit: PerSecond,
			of: measure("Admissions/accounts=1/callers=64 admissions/s")},
		{ID: "settles", Title: "Ledger: settles over 32 accounts, batches of 200", Unit: PerSecond,
			of: measure("Settles/accounts=32/batch=200 settles/s")},
		{ID: "journal", Title: "Usage journal: durable finals, 512 writers", Unit: PerSecond,
			of: measure("Final/writers=512 finals/s")},
		{ID: "ready_cold", Title: "Time to ready on an empty directory", Unit: Millis, of: measure("ready_cold_ms")},
		{ID: "ready_warm", Title: "Time to ready, next start", Unit: Millis, of: measure("ready_warm_ms")},
		{ID: "failures", Title: "Errors, short streams, answers without usage", Unit: Count, Untimed: true, of: failures},
		{ID: "ledger_small", Unit: Micros, Hidden: true, of: load("chat-16", share(cpuReq))},
		{ID: "ledger_32k", Unit: Micros, Hidden: true, of: load("body32k-16", share(cpuReq))},
		{ID: "ledger_64", Unit: Micros, Hidden: true, of: load("live20-64", share(cpuEvent))},
		{ID: "ledger_512", Unit: Micros, Hidden: true, of: load("live20-512", share(cpuEvent))},
	}
}

func load(scenario string, f func(*loadgen.Result) float64) func(source, string) record.Series {
	return func(s source, target string) record.Series { return s.set.Series(scenario, target, f) }
}

// open is the CPU of a request at the scenario's rate. A target that falls
// behind the rate has no such figure, because a full machine costs less per
// request than one that sleeps in between.
func open(scenario string) func(source, string) record.Series {
	return func(s source, target string) record.Series {
		if behind(s.set, scenario, target) > 0 {
			return nil
		}
		return s.set.Series(scenario, target, cpuReq)
	}
}

// keepsUp is the share of its rate that an open loop must reach.
const keepsUp = 0.95

// behind is the rate that a target reached in an open loop that it did not keep
// up with; 0 when it did, or was not measured.
func behind(set record.Set, scenario, target string) float64 {
	rate := set.Series(scenario, target, func(r *loadgen.Result) float64 { return r.Rate })
	got := set.Series(scenario, target, func(r *loadgen.Result) float64 { return r.ReqPerSec })
	if got.Median() >= keepsUp*rate.Median() {
		return 0
	}
	return got.Median()
}

// added is what a target takes longer than the baseline in the same round.
func added(scenario string, f func(*loadgen.Result) float64) func(source, string) record.Series {
	return func(s source, target string) record.Series {
		if target == s.baseline {
			return nil
		}
		return s.set.Series(scenario, target, f).Less(s.set.Series(scenario, s.baseline, f))
	}
}

// allocations are heap objects of the target's Go programs by what n counts.
func allocations(scenario string, n func(*loadgen.Result) uint64) func(source, string) record.Series {
	return func(s source, target string) record.Series {
		counted := load(scenario, func(r *loadgen.Result) float64 { return float64(n(r)) })
		all := s.set.Series(scenario, target, func(r *loadgen.Result) float64 { return r.Mallocs })
		if all.Median() == 0 {
			return nil // a target without metrics
		}
		return all.Over(counted(s, target))
	}
}

func measure(name string) func(source, string) record.Series {
	return func(s source, target string) record.Series { return s.set.Measures(name, target) }
}

func failures(s source, target string) record.Series {
	failed, all := s.set.Failures("", target)
	if all == 0 {
		return nil
	}
	return record.Series{0: float64(failed)}
}

// share is the part of f that the ledger's processes spent.
func share(f func(*loadgen.Result) float64) func(*loadgen.Result) float64 {
	return func(r *loadgen.Result) float64 {
		if r.CPU == 0 {
			return 0
		}
		var sum float64
		for _, name := range ledgerProcesses {
			sum += r.CPUBy[name]
		}
		return f(r) * sum / r.CPU
	}
}

// Cell is a figure of one target.
type Cell struct {
	Value float64 `json:"value"`
	// Low and High are the lowest and the highest round.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Ratio to the reference is the median of the rounds' own ratios, and
	// RatioLow and RatioHigh the lowest and the highest of them; 0 when there is
	// none.
	Ratio     float64 `json:"ratio,omitempty"`
	RatioLow  float64 `json:"ratio_low,omitempty"`
	RatioHigh float64 `json:"ratio_high,omitempty"`
	// Net is Value less the flushes that the path waits for, not below 0; nil
	// when it waits for none.
	Net *float64 `json:"net,omitempty"`
	// Rounds is how many values the median is of.
	Rounds int `json:"rounds"`
}

// Counts is what is held against a gate.
func (c Cell) Counts(f Figure) float64 {
	switch {
	case f.Ratio:
		return c.Ratio
	case c.Net != nil:
		return *c.Net
	default:
		return c.Value
	}
}

// Row is a figure of every target that has it.
type Row struct {
	Figure
	Cells map[string]Cell
}

// Table is all figures by ID, in order.
type Table struct {
	Rows      []Row
	Reference string
	// SyncMicros is the median of a flush in the same run; 0 if unknown.
	SyncMicros float64
	// Load is the load average that others made on the machine: the median of
	// what was seen while the harness itself rested.
	Load float64
	// Behind says which targets did not keep up with an open loop, one sentence
	// each.
	Behind []string
}

// Row finds a figure.
func (t Table) Row(id string) (Row, bool) {
	for _, r := range t.Rows {
		if r.ID == id {
			return r, true
		}
	}
	return Row{}, false
}

// Names under which is recorded: the time of a flush, the load of others, and
// the CPU of an idle target.
const (
	SyncMeasure = "fdatasync_p50_us"
	LoadMeasure = "load_of_others"
	IdleMeasure = "idle_cpu_ms_per_s"
)

// Work makes the table of all targets that set speaks of.
func Work(set record.Set, baseline, reference string) Table {
	t := Table{Reference: reference}
	t.SyncMicros, _ = set.Measure(SyncMeasure, record.Machine)
	t.Load, _ = set.Measure(LoadMeasure, record.Machine)
	targets := map[string]bool{}
	for _, r := range set {
		targets[r.Target] = true
	}
	src := source{set: set, baseline: baseline}
	for _, f := range All() {
		row := Row{Figure: f, Cells: map[string]Cell{}}
		ref := f.of(src, reference)
		for name := range targets {
			s := f.of(src, name)
			if len(s) == 0 {
				continue
			}
			c := Cell{Value: s.Median(), Rounds: len(s)}
			c.Low, c.High = s.Spread()
			if f.Ratio && name != baseline && name != reference {
				ratios := s.Over(ref)
				c.Ratio = ratios.Median()
				c.RatioLow, c.RatioHigh = ratios.Spread()
			}
			if f.Syncs > 0 && t.SyncMicros > 0 && isProduct(name) {
				net := max(c.Value-float64(f.Syncs)*t.SyncMicros, 0)
				c.Net = &net
			}
			row.Cells[name] = c
		}
		t.Rows = append(t.Rows, row)
	}
	t.Behind = fallenBehind(set, targets)
	return t
}

// isProduct reports whether a target is the product in one of its forms.
func isProduct(target string) bool {
	return slices.Contains([]string{Standalone, Grouped, Fleet}, target)
}

func fallenBehind(set record.Set, targets map[string]bool) []string {
	var out []string
	for _, rate := range []string{"300", "900"} {
		for target := range targets {
			if got := behind(set, "open-"+rate, target); got > 0 {
				out = append(out, fmt.Sprintf("%s does not keep up with %s/s: %.0f/s", target, rate, got))
			}
		}
	}
	slices.Sort(out)
	return out
}
