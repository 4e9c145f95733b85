// Package figures works out of raw results the figures that a decision hangs
// on. A figure is a median over the rounds; latency is what the target adds to
// the engine's own; CPU also stands as a ratio to a reference that ran in the
// same rounds.
package figures

import (
	"inference-bench/internal/loadgen"
	"inference-bench/internal/record"
)

// Names of targets that figures and gates know.
const (
	Standalone = "standalone"
	Fleet      = "fleet"
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
	// Hidden figures serve others and are not shown.
	Hidden bool

	of func(source, string) (float64, int)
}

// Unit is what a figure counts.
type Unit string

// The units.
const (
	Micros    Unit = "µs"
	Millis    Unit = "ms"
	KiB       Unit = "KiB"
	PerSecond Unit = "/s"
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
	cpuReq := func(r *loadgen.Result) float64 { return r.CPUPerReq }
	cpuEvent := func(r *loadgen.Result) float64 { return r.CPUPerChunk }
	return []Figure{
		{ID: "cpu_small", Title: "CPU per request, small, 16 connections", Unit: Micros, Ratio: true,
			of: load("chat-16", cpuReq)},
		{ID: "cpu_32k", Title: "CPU per request, 32 KB body, 16 connections", Unit: Micros, Ratio: true,
			of: load("body32k-16", cpuReq)},
		{ID: "event_64", Title: "CPU per streamed event, 64 streams at 20 ms", Unit: Micros, Ratio: true,
			of: load("live20-64", cpuEvent)},
		{ID: "event_512", Title: "CPU per streamed event, 512 streams at 20 ms", Unit: Micros, Ratio: true,
			of: load("live20-512", cpuEvent)},
		{ID: "added_p50", Title: "Added latency p50, one connection", Unit: Micros, Syncs: 2,
			of: added("chat-1", func(r *loadgen.Result) float64 { return r.P50 })},
		{ID: "first_token", Title: "Added time to first token p50, 64 streams", Unit: Micros, Syncs: 1,
			of: added("first-64", func(r *loadgen.Result) float64 { return r.TTFT50 })},
		{ID: "nominal_2000", Title: "Share of nominal rate, 2,000 streams at 20 ms", Unit: Share,
			of: load("live20-2000", func(r *loadgen.Result) float64 { return r.NominalRatio })},
		{ID: "memory", Title: "Memory per open stream, 512 streams", Unit: KiB,
			of: load("streams-mem", func(r *loadgen.Result) float64 { return r.MemPerStream() / 1024 })},
		{ID: "idle_socket", Title: "Memory per idle provider socket", Unit: KiB, of: measure("idle_socket_kib")},
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
		{ID: "failures", Title: "Errors, short streams, answers without usage", Unit: Count, of: failures},
		{ID: "ledger_small", Unit: Micros, Hidden: true, of: load("chat-16", share(cpuReq))},
		{ID: "ledger_32k", Unit: Micros, Hidden: true, of: load("body32k-16", share(cpuReq))},
		{ID: "ledger_64", Unit: Micros, Hidden: true, of: load("live20-64", share(cpuEvent))},
		{ID: "ledger_512", Unit: Micros, Hidden: true, of: load("live20-512", share(cpuEvent))},
	}
}

func load(scenario string, f func(*loadgen.Result) float64) func(source, string) (float64, int) {
	return func(s source, target string) (float64, int) { return s.set.Median(scenario, target, f) }
}

// added is what a target takes longer than the baseline.
func added(scenario string, f func(*loadgen.Result) float64) func(source, string) (float64, int) {
	return func(s source, target string) (float64, int) {
		base, n := s.set.Median(scenario, s.baseline, f)
		if n == 0 || target == s.baseline {
			return 0, 0
		}
		v, n := s.set.Median(scenario, target, f)
		return v - base, n
	}
}

func measure(name string) func(source, string) (float64, int) {
	return func(s source, target string) (float64, int) { return s.set.Measure(name, target) }
}

func failures(s source, target string) (float64, int) {
	failed, all := s.set.Failures("", target)
	return float64(failed), int(min(all, 1))
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
	// Ratio to the reference; 0 when there is none.
	Ratio float64 `json:"ratio,omitempty"`
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

// SyncMeasure is the name under which the time of a flush is recorded.
const SyncMeasure = "fdatasync_p50_us"

// Work makes the table of all targets that set speaks of.
func Work(set record.Set, baseline, reference string) Table {
	t := Table{Reference: reference}
	t.SyncMicros, _ = set.Measure(SyncMeasure, record.Machine)
	targets := map[string]bool{}
	for _, r := range set {
		targets[r.Target] = true
	}
	src := source{set: set, baseline: baseline}
	for _, f := range All() {
		row := Row{Figure: f, Cells: map[string]Cell{}}
		ref, refs := f.of(src, reference)
		for name := range targets {
			v, n := f.of(src, name)
			if n == 0 {
				continue
			}
			c := Cell{Value: v, Rounds: n}
			if f.Ratio && refs > 0 && ref > 0 && name != baseline && name != reference {
				c.Ratio = v / ref
			}
			if f.Syncs > 0 && t.SyncMicros > 0 && (name == Standalone || name == Fleet) {
				net := max(v-float64(f.Syncs)*t.SyncMicros, 0)
				c.Net = &net
			}
			row.Cells[name] = c
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
