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
			t.Errorf("median of %v: got %v, want %v", c.of, got, c.want)
		}
	}
}

func TestMedianDoesNotReorderItsArgument(t *testing.T) {
	v := []float64{3, 1, 2}
	Median(v)
	switch {
	case v[0] != 3:
		t.Errorf("the argument: v[0]: got %v, want 3", v[0])
	case v[1] != 1:
		t.Errorf("the argument: v[1]: got %v, want 1", v[1])
	case v[2] != 2:
		t.Errorf("the argument: v[2]: got %v, want 2", v[2])
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
	if v, n := set.Median("chat-1", "nginx", func(r *loadgen.Result) float64 { return r.P50 }); v != 10.5 {
		t.Errorf("p50: got %v, want 10.5", v)
	} else if n != 2 {
		t.Errorf("n: got %d, want 2", n)
	}
	if v, n := set.Measure("sync_us", Machine); v != 50 {
		t.Errorf("sync: got %v, want 50", v)
	} else if n != 2 {
		t.Errorf(`n of set.Measure("sync_us", Machine): got %d, want 2`, n)
	}
}

func TestARoundOfErrorsIsAFailureAndNoMedian(t *testing.T) {
	set := Set{
		{Scenario: "chat-1", Target: "x", Result: &loadgen.Result{Requests: 10, P50: 7, NoUsage: 1}},
		{Scenario: "chat-1", Target: "x", Result: &loadgen.Result{Errors: 5}},
		{Scenario: "chat-2", Target: "x", Result: &loadgen.Result{Requests: 1, Short: 1}},
	}
	if v, n := set.Median("chat-1", "x", func(r *loadgen.Result) float64 { return r.P50 }); v != 7 {
		t.Errorf("median: got %v, want 7", v)
	} else if n != 1 {
		t.Errorf("n: got %d, want 1", n)
	}
	if bad, all := set.Failures("chat-1", "x"); bad != 6 {
		t.Errorf("bad: got %d, want 6", bad)
	} else if all != 15 {
		t.Errorf("all: got %d, want 15", all)
	}
	if bad, _ := set.Failures("", "x"); bad != 7 {
		t.Errorf("got %d failed in all, want 7", bad)
	}
}

func TestADamagedFileIsRefused(t *testing.T) {
	if _, err := Read(strings.NewReader("{\"target\":\"x\"}\n{\"tar")); err == nil {
		t.Error("naming the damaged record: got no error, want one")
	} else if !strings.Contains(err.Error(), "record 2") {
		t.Errorf(`naming the damaged record: got the error %q, want "record 2" in it`, err)
	}
}

func TestTheLastTextCounts(t *testing.T) {
	set := Set{{Target: Machine, Measure: "go", Text: "old"}, {Target: Machine, Measure: "go", Text: "new"},
		{Target: "x", Measure: "go", Text: "other"}}
	if got := set.Text("go"); got != "new" {
		t.Errorf(`text: got %q, want "new"`, got)
	}
}
