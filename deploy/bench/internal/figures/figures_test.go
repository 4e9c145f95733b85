package figures

import (
	"math"
	"slices"
	"testing"

	"inference-bench/internal/loadgen"
	"inference-bench/internal/record"
)

func result(scenario, target string, r loadgen.Result) record.Record {
	if r.Requests == 0 {
		r.Requests = 1
	}
	return record.Record{Scenario: scenario, Target: target, Result: &r}
}

func cell(t *testing.T, set record.Set, figure, target string) Cell {
	t.Helper()
	row, ok := Work(set, "direct", "nginx").Row(figure)
	if !ok {
		t.Fatalf("no figure %q", figure)
	}
	c, ok := row.Cells[target]
	if !ok {
		t.Fatalf("%s has no %s", target, figure)
	}
	return c
}

func inRound(round int, r record.Record) record.Record {
	r.Round = round
	return r
}

func TestTheRatioIsTheMedianOfTheRoundsRatios(t *testing.T) {
	// What slowed the third round down slowed both sides down.
	set := record.Set{}
	for round, x := range []struct{ ref, mine float64 }{{10, 50}, {10, 60}, {40, 280}} {
		set = append(set, inRound(round, result("chat-16", "nginx", loadgen.Result{CPUPerReq: x.ref})),
			inRound(round, result("chat-16", Standalone, loadgen.Result{CPUPerReq: x.mine})))
	}
	c := cell(t, set, "cpu_small", Standalone)
	if c.Ratio != 6 {
		t.Errorf("ratio: got %v, want 6, the median of 5, 6 and 7", c.Ratio)
	}
	if c.RatioLow != 5 {
		t.Errorf("lowest ratio: got %v, want 5", c.RatioLow)
	}
	if c.RatioHigh != 7 {
		t.Errorf("highest ratio: got %v, want 7", c.RatioHigh)
	}
	if c.Value != 60 {
		t.Errorf("value: got %v, want 60", c.Value)
	}
}

func TestTheReferencesSpreadIsKept(t *testing.T) {
	set := record.Set{}
	for round, cpu := range []float64{15, 13, 19} {
		set = append(set, inRound(round, result("chat-16", "nginx", loadgen.Result{CPUPerReq: cpu})))
	}
	c := cell(t, set, "cpu_small", "nginx")
	if c.Low != 13 {
		t.Errorf("lowest: got %v, want 13", c.Low)
	}
	if c.High != 19 {
		t.Errorf("highest: got %v, want 19", c.High)
	}
	if c.Ratio != 0 {
		t.Errorf("ratio to itself: got %v, want none", c.Ratio)
	}
}

func TestWhatFallsBehindTheRateHasNoFigureOfIt(t *testing.T) {
	set := record.Set{
		result("open-300", "nginx", loadgen.Result{CPUPerReq: 10, Rate: 300, ReqPerSec: 299}),
		result("open-300", Standalone, loadgen.Result{CPUPerReq: 60, Rate: 300, ReqPerSec: 290}),
		result("open-300", Fleet, loadgen.Result{CPUPerReq: 400, Rate: 300, ReqPerSec: 250}),
	}
	if c := cell(t, set, "open_300", Standalone); c.Ratio != 6 {
		t.Errorf("ratio: got %v, want 6", c.Ratio)
	}
	table := Work(set, "direct", "nginx")
	row, _ := table.Row("open_300")
	if c, ok := row.Cells[Fleet]; ok {
		t.Errorf("a fleet at 250/s: got the figure %+v, want none", c)
	}
	if want := []string{"fleet does not keep up with 300/s: 250/s"}; !slices.Equal(table.Behind, want) {
		t.Errorf("behind: got %q, want %q", table.Behind, want)
	}
}

func TestAllocationsAreByRequestAndByEvent(t *testing.T) {
	set := record.Set{
		result("chat-16", "nginx", loadgen.Result{Requests: 10}),
		result("chat-16", Standalone, loadgen.Result{Requests: 10, Mallocs: 3000}),
		result("live20-64", Standalone, loadgen.Result{Requests: 10, Chunks: 100, Mallocs: 700}),
	}
	if c := cell(t, set, "allocs_small", Standalone); c.Value != 300 {
		t.Errorf("allocations per request: got %v, want 300", c.Value)
	}
	if c := cell(t, set, "allocs_event", Standalone); c.Value != 7 {
		t.Errorf("allocations per event: got %v, want 7", c.Value)
	}
	row, _ := Work(set, "direct", "nginx").Row("allocs_small")
	if c, ok := row.Cells["nginx"]; ok {
		t.Errorf("a target without metrics: got %+v, want none", c)
	}
}

func TestTheLoadIsTheMedianOfWhatWasSeen(t *testing.T) {
	set := record.Set{}
	for _, load := range []float64{0.1, 9, 0.3} {
		set = append(set, record.Record{Target: record.Machine, Measure: LoadMeasure, Value: load})
	}
	if got := Work(set, "direct", "nginx").Load; got != 0.3 {
		t.Errorf("load: got %v, want 0.3", got)
	}
}

func TestWithoutTheReferenceThereIsNoRatio(t *testing.T) {
	set := record.Set{result("chat-16", Standalone, loadgen.Result{CPUPerReq: 100})}
	if c := cell(t, set, "cpu_small", Standalone); c.Ratio != 0 {
		t.Errorf("ratio: got %v, want 0", c.Ratio)
	}
}

func TestAddedLatencyIsGivenWithAndWithoutFlushes(t *testing.T) {
	set := record.Set{
		result("chat-1", "direct", loadgen.Result{P50: 100}),
		result("chat-1", "goproxy", loadgen.Result{P50: 180}),
		result("chat-1", Standalone, loadgen.Result{P50: 900}),
		{Target: record.Machine, Measure: SyncMeasure, Value: 250},
	}
	c := cell(t, set, "added_p50", Standalone)
	switch {
	case c.Value != 800:
		t.Errorf("added: got %v, want 800", c.Value)
	case c.Net == nil:
		t.Error("net of two flushes: got none, want 300")
	case *c.Net != 300:
		t.Errorf("net of two flushes: got %v, want 300", *c.Net)
	}
	if c := cell(t, set, "added_p50", "goproxy"); c.Value != 80 {
		t.Errorf("a proxy waits for no flush: c.Value: got %v, want 80", c.Value)
	} else if c.Net != nil {
		t.Errorf("a proxy waits for no flush: c.Net: got %v, want nil", c.Net)
	}
}

func TestMemoryIsTheDifferenceByOpenStreams(t *testing.T) {
	set := record.Set{result("streams-mem", Standalone, loadgen.Result{MemBefore: 100 << 10, MemOpen: 356 << 10,
		OpenAtEnd: 4})}
	if c := cell(t, set, "memory", Standalone); c.Value != 64 {
		t.Errorf("got %v KiB, want 64", c.Value)
	}
}

func TestTheLedgersShareIsThatOfItsProcesses(t *testing.T) {
	set := record.Set{result("chat-16", Fleet, loadgen.Result{CPUPerReq: 400, CPU: 4,
		CPUBy: map[string]float64{"postgres": 1, "billing-ledger": 0.5, "edge-gateway": 2.5}})}
	if c := cell(t, set, "ledger_small", Fleet); math.Abs(c.Value-150) > 1e-9 {
		t.Errorf("got %v µs, want 150", c.Value)
	}
}

func TestFailuresAreCountedOverAllScenarios(t *testing.T) {
	set := record.Set{
		result("chat-1", Standalone, loadgen.Result{Errors: 1}),
		result("live20-64", Standalone, loadgen.Result{Short: 2, NoUsage: 3}),
	}
	if c := cell(t, set, "failures", Standalone); c.Value != 6 {
		t.Errorf("got %v, want 6", c.Value)
	}
}

func TestEveryFigureHasAnIDOfItsOwnAndATitle(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range All() {
		switch {
		case seen[f.ID]:
			t.Error("figure: seen[f.ID]: got true, want false")
		case f.ID == "":
			t.Error(`figure: f.ID: got "", want some text`)
		case f.Title == "" && !f.Hidden:
			t.Error(`figure: f.Hidden: got false, want true, where f.Title == ""`)
		case f.of == nil:
			t.Error("figure: f.of: got nil, want a value")
		}
		seen[f.ID] = true
	}
}
