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
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	if l := lines[0]; l.Name != "Admissions/fsync=on/accounts=32/callers=64" || l.Metrics["admissions/s"] != 8901 ||
		l.Metrics["ns/op"] != 112345 {
		t.Errorf("first: %+v", l)
	}
	if l := lines[1]; l.Name != "Settles/fsync=on/accounts=1/batch=200" || l.Metrics["settles/s"] != 22222.5 {
		t.Errorf("second: %+v", l)
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
