package versus

import (
	"bytes"
	"strings"
	"testing"

	"inference-bench/internal/loadgen"
	"inference-bench/internal/record"
)

func chat(target string, round int, cpu float64) record.Record {
	return record.Record{Target: target, Round: round, Scenario: "chat-16",
		Result: &loadgen.Result{Requests: 10, CPUPerReq: cpu, Mallocs: 10 * cpu}}
}

func TestRoundsAreComparedWithTheirOwn(t *testing.T) {
	var set record.Set
	for round, slow := range []float64{1, 4, 2, 1, 8, 1, 1, 3, 1} { // by what a round slowed both sides down
		set = append(set, chat("base", round, 100*slow), chat("other", round, 1), chat("head", round, 102*slow))
	}
	lines, failed := Compare(set, "base", "head")
	if len(lines) != 2 || len(failed) != 0 {
		t.Fatalf("got %+v and failures %v, want CPU and allocations per request", lines, failed)
	}
	for _, l := range lines {
		if l.Ratio != 1.02 || l.Low != 1.02 || l.High != 1.02 || l.Rounds != 9 {
			t.Errorf("got %+v, want a ratio of 1.02 in all 9 rounds", l)
		}
	}
}

func TestStreamsAreComparedByTheirEvents(t *testing.T) {
	set := record.Set{}
	for _, target := range []string{"base", "head"} {
		set = append(set, record.Record{Target: target, Scenario: "live",
			Result: &loadgen.Result{Requests: 2, Chunks: 200, CPUPerReq: 500, CPUPerChunk: 5, Mallocs: 800}})
	}
	lines, _ := Compare(set, "base", "head")
	if len(lines) != 2 || lines[0].Figure != "CPU per event, µs" || lines[1].Base != 4 {
		t.Errorf("got %+v, want 5 µs and 4 allocations per event, and nothing per request", lines)
	}
}

func TestRoundsWithFailuresDoNotCount(t *testing.T) {
	bad := chat("head", 1, 1)
	bad.Result.Errors = 1
	set := record.Set{chat("base", 0, 100), chat("head", 0, 110), chat("base", 1, 100), bad, chat("base", 2, 100)}
	lines, failed := Compare(set, "base", "head")
	if len(lines) == 0 || lines[0].Rounds != 1 || lines[0].Ratio != 1.1 || failed["chat-16"] != 2 {
		t.Errorf("got %+v and failures %v, want one round, and two that do not count", lines, failed)
	}
	if got, want := Failures(failed), "rounds with failures, which do not count: chat-16 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The ranks are those of tables for the sign test at 5% on both sides.
func TestTheIntervalIsTheSignTests(t *testing.T) {
	for n, rank := range map[int]int{1: 1, 5: 1, 6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 17: 5, 20: 6, 25: 8} {
		var v []float64
		for i := n; i >= 1; i-- {
			v = append(v, float64(i))
		}
		low, high := Interval(v)
		if low != float64(rank) || high != float64(n+1-rank) {
			t.Errorf("of %d: got %v to %v, want ranks %d and %d", n, low, high, rank, n+1-rank)
		}
	}
}

func TestOnlyAnIntervalAboveTheLimitIsMarked(t *testing.T) {
	var out bytes.Buffer
	lines := []Line{{Load: "a", Ratio: 1.05, Low: 1.02, High: 1.08}, {Load: "b", Ratio: 1.05, Low: 1.04, High: 1.06}}
	if err := Table(&out, lines, "base", "head", 1.03); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 3 || strings.Contains(rows[1], "above") || !strings.Contains(rows[2], "above 1.03") {
		t.Errorf("got\n%swant the second line alone marked", out.String())
	}
}
