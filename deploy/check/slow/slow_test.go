package slow

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// ran is what go test -json printed for a package that passes, a package that fails, a
// package that does not build, and a package whose test does not end.
const ran = `go: downloading x v1.0.0
{"ImportPath":"m/unbuilt [m/unbuilt.test]","Action":"build-output","Output":"# m/unbuilt\n"}
{"ImportPath":"m/unbuilt [m/unbuilt.test]","Action":"build-output","Output":"a_test.go:3:30: undefined: x\n"}
{"ImportPath":"m/unbuilt [m/unbuilt.test]","Action":"build-fail"}
{"Action":"start","Package":"m/good"}
{"Action":"run","Package":"m/good","Test":"TestA"}
{"Action":"output","Package":"m/good","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"m/good","Test":"TestA","Output":"    a_test.go:3: hidden\n"}
{"Action":"pass","Package":"m/good","Test":"TestA/part","Elapsed":9}
{"Action":"pass","Package":"m/good","Test":"TestA","Elapsed":2.5}
{"Action":"output","Package":"m/good","Output":"hidden as well\n"}
{"Action":"output","Package":"m/good","Output":"PASS\n"}
{"Action":"output","Package":"m/good","Output":"ok  \tm/good\t2.500s\n"}
{"Action":"pass","Package":"m/good","Elapsed":2.5}
{"Action":"output","Package":"m/bad","Test":"TestGood","Output":"    a_test.go:3: hidden\n"}
{"Action":"pass","Package":"m/bad","Test":"TestGood","Elapsed":1}
{"Action":"output","Package":"m/bad","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"m/bad","Test":"TestBad","Output":"    a_test.go:4: got 1, want 2\n"}
{"Action":"output","Package":"m/bad","Test":"TestBad","Output":"--- FAIL: TestBad (3.00s)\n"}
{"Action":"fail","Package":"m/bad","Test":"TestBad","Elapsed":3}
{"Action":"output","Package":"m/bad","Output":"FAIL\tm/bad\t4.000s\n"}
{"Action":"fail","Package":"m/bad","Elapsed":4}
{"Action":"output","Package":"m/unbuilt","Output":"FAIL\tm/unbuilt [build failed]\n"}
{"Action":"fail","Package":"m/unbuilt","Elapsed":0}
{"Action":"output","Package":"m/hangs","Test":"TestHangs","Output":"    a_test.go:5: waits\n"}
{"Action":"output","Package":"m/hangs","Output":"panic: test timed out after 1s\n"}
{"Action":"fail","Package":"m/hangs","Elapsed":1}
`

const shown = `go: downloading x v1.0.0
# m/unbuilt
a_test.go:3:30: undefined: x
ok  	m/good	2.500s
    a_test.go:4: got 1, want 2
--- FAIL: TestBad (3.00s)
FAIL	m/bad	4.000s
FAIL	m/unbuilt [build failed]
    a_test.go:5: waits
panic: test timed out after 1s
`

func TestOnlyWhatFailedIsShown(t *testing.T) {
	var keep, out strings.Builder
	result, err := Read(strings.NewReader(ran), &keep, &out)
	if err != nil {
		t.Fatal(err)
	}
	if keep.String() != ran {
		t.Errorf("kept: got %q, want all events", keep.String())
	}
	if out.String() != shown {
		t.Errorf("got\n%s\nwant\n%s", out.String(), shown)
	}
	want := []Test{{"m/bad", "TestBad", 3}, {"m/good", "TestA", 2.5}, {"m/bad", "TestGood", 1}}
	if !slices.Equal(result.Tests, want) {
		t.Errorf("Tests: got %v, want %v", result.Tests, want)
	}
	if want := []Test{{"m/bad", "TestBad", 3}}; !slices.Equal(result.Failed, want) {
		t.Errorf("Failed: got %v, want %v", result.Failed, want)
	}
	if want := []string{"m/unbuilt", "m/hangs"}; !slices.Equal(result.Wrong, want) {
		t.Errorf("Wrong: got %v, want %v", result.Wrong, want)
	}
}

func TestWhatNoSecondRunCanMendIsWrong(t *testing.T) {
	const failed = `{"Action":"fail","Package":"m/p","Test":"TestA/sub","Elapsed":1}
{"Action":"fail","Package":"m/p","Test":"TestA","Elapsed":1}
`
	const ended = `{"Action":"fail","Package":"m/p","Elapsed":1}
{"Action":"fail"}
`
	race := `{"Action":"output","Package":"m/p","Test":"TestA/sub","Output":"WARNING: DATA RACE\n"}` + "\n"
	told := `{"Action":"output","Package":"m/p","Test":"TestA",` +
		`"Output":"    testing.go:1: race detected during execution of test\n"}` + "\n"
	panics := `{"Action":"output","Package":"m/p","Test":"TestA","Output":"panic: x\n"}` + "\n"
	own := `{"Action":"output","Package":"m/p","Output":"fatal error: x\n"}` + "\n"
	for _, c := range []struct {
		name, events string
		want         []string
	}{
		{"a test and a subtest", failed + ended, nil},
		{"a data race", race + failed + ended, []string{"m/p"}},
		{"a data race in the output of another test", told + failed + ended, []string{"m/p"}},
		{"a run that died after a test failed", failed + `{"Action":"fail"}` + "\n", []string{"m/p did not end"}},
		{"a run that died beside a test that failed", failed + ended + `{"Action":"fail"}` + "\n", []string{"go test"}},
		{"a panic", panics + failed + ended, []string{"m/p"}},
		{"a fatal error of the package", failed + own + ended, []string{"m/p"}},
		{"no test", ended, []string{"m/p"}},
		{"go test alone", `{"Action":"fail"}` + "\n", []string{"go test"}},
		{"nothing", "", nil},
	} {
		result, err := Read(strings.NewReader(c.events), io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(result.Wrong, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, result.Wrong, c.want)
		}
	}
}

func TestTheSlowestArePrinted(t *testing.T) {
	var out strings.Builder
	if err := Print(&out, []Test{{"m/a", "TestA", 2.5}, {"m/b", "TestB", 1}}, 1); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "    2.50 s  m/a TestA\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
