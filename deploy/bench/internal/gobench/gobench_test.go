package gobench

import (
	"strings"
	"testing"
)

const output = `goos: linux
pkg: example/store
BenchmarkAdmissions/fsync=on/accounts=32/callers=64-2         	   10000	    112345 ns/op	      8901 admissions/s
BenchmarkSettles/fsync=on/accounts=1/batch=200       	    20000	     45000 ns/op	     22222.5 settles/s
BenchmarkSettles prints something of its own
PASS
ok  	example/store	12.3s
`

func TestMetricsAreRead(t *testing.T) {
	lines, err := Parse(strings.NewReader(output))
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(lines) != 2 {
		t.Fatalf("len(lines): got %d, want 2", len(lines))
	}
	switch l := lines[0]; {
	case l.Name != "Admissions/fsync=on/accounts=32/callers=64":
		t.Errorf(`first: l.Name: got %q, want "Admissions/fsync=on/accounts=32/callers=64"`, l.Name)
	case l.Metrics["admissions/s"] != 8901:
		t.Errorf(`first: l.Metrics["admissions/s"]: got %v, want 8901`, l.Metrics["admissions/s"])
	case l.Metrics["ns/op"] != 112345:
		t.Errorf(`first: l.Metrics["ns/op"]: got %v, want 112345`, l.Metrics["ns/op"])
	}
	if l := lines[1]; l.Name != "Settles/fsync=on/accounts=1/batch=200" {
		t.Errorf(`second: l.Name: got %q, want "Settles/fsync=on/accounts=1/batch=200"`, l.Name)
	} else if l.Metrics["settles/s"] != 22222.5 {
		t.Errorf(`second: l.Metrics["settles/s"]: got %v, want 22222.5`, l.Metrics["settles/s"])
	}
}

func TestAFailedBenchmarkIsAnError(t *testing.T) {
	for _, bad := range []string{"--- FAIL: BenchmarkSettles", "FAIL\texample/store\t1s", "BenchmarkX-2 10 fast ns/op",
		"BenchmarkX-2 10 5"} {
		if _, err := Parse(strings.NewReader(bad + "\n")); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(output)
	f.Add("BenchmarkX-2 10 5 ns/op 7 B/op")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := Parse(strings.NewReader(text))
		if err != nil && lines != nil {
			t.Error("lines with an error")
		}
		for _, l := range lines {
			if l.Metrics == nil {
				t.Error("a line without metrics")
			}
		}
	})
}
