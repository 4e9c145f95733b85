package figures

import (
	"math"
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

func TestCPUIsARatioOfMedians(t *testing.T) {
	set := record.Set{
		result("chat-16", "nginx", loadgen.Result{CPUPerReq: 10}),
		result("chat-16", "nginx", loadgen.Result{CPUPerReq: 30}),
		result("chat-16", Standalone, loadgen.Result{CPUPerReq: 100}),
	}
	if c := cell(t, set, "cpu_small", Standalone); c.Value != 100 || c.Ratio != 5 || c.Rounds != 1 {
		t.Errorf("got %+v, want 100 and 5 times", c)
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
	if c.Value != 800 || c.Net == nil || *c.Net != 300 {
		t.Errorf("got %+v, want 800 and 300 net of two flushes", c)
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
