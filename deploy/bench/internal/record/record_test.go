package record

import (
	"path/filepath"
	"strings"
	"testing"

	"inference-bench/internal/loadgen"
)

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.of, got, c.want)
		}
	}
}

func TestMedianDoesNotReorderItsArgument(t *testing.T) {
	v := []float64{3, 1, 2}
	Median(v)
	if v[0] != 3 || v[1] != 1 || v[2] != 2 {
		t.Errorf("the argument became %v", v)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.jsonl")
	for round := range 2 { // appended to, not replaced
		w, err := Append(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(Record{Scenario: "chat-1", Target: "nginx", Round: round, Result: &loadgen.Result{Requests: 2,
			P50: float64(10 + round)}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(Record{Target: Machine, Measure: "sync_us", Value: float64(100 * round)}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if v, n := set.Median("chat-1", "nginx", func(r *loadgen.Result) float64 { return r.P50 }); v != 10.5 || n != 2 {
		t.Errorf("p50 is %v of %d rounds, want 10.5 of 2", v, n)
	}
	if v, n := set.Measure("sync_us", Machine); v != 50 || n != 2 {
		t.Errorf("sync is %v of %d, want 50 of 2", v, n)
	}
}

func TestARoundOfErrorsIsAFailureAndNoMedian(t *testing.T) {
	set := Set{
		{Scenario: "chat-1", Target: "x", Result: &loadgen.Result{Requests: 10, P50: 7, NoUsage: 1}},
		{Scenario: "chat-1", Target: "x", Result: &loadgen.Result{Errors: 5}},
		{Scenario: "chat-2", Target: "x", Result: &loadgen.Result{Requests: 1, Short: 1}},
	}
	if v, n := set.Median("chat-1", "x", func(r *loadgen.Result) float64 { return r.P50 }); v != 7 || n != 1 {
		t.Errorf("median %v of %d, want 7 of 1", v, n)
	}
	if bad, all := set.Failures("chat-1", "x"); bad != 6 || all != 15 {
		t.Errorf("%d of %d failed, want 6 of 15", bad, all)
	}
	if bad, _ := set.Failures("", "x"); bad != 7 {
		t.Errorf("%d failed in all, want 7", bad)
	}
}

func TestADamagedFileIsRefused(t *testing.T) {
	if _, err := Read(strings.NewReader("{\"target\":\"x\"}\n{\"tar")); err == nil ||
		!strings.Contains(err.Error(), "record 2") {
		t.Errorf("error %v does not name record 2", err)
	}
}

func TestTheLastTextCounts(t *testing.T) {
	set := Set{{Target: Machine, Measure: "go", Text: "old"}, {Target: Machine, Measure: "go", Text: "new"},
		{Target: "x", Measure: "go", Text: "other"}}
	if got := set.Text("go"); got != "new" {
		t.Errorf("text is %q", got)
	}
}
