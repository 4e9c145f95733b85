// Package slow reads the events of go test -json. It shows what go test shows
// without that flag, and says which tests took longest and which of those that failed
// may be run again, alone.
package slow

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of go test -json: see go doc test2json and go help buildjson.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

// Test is a test function and the seconds that it ran, without those in which it
// waited for its turn. Its subtests are part of it.
type Test struct {
	Package, Name string
	Seconds       float64
}

// Result is what events say.
type Result struct {
	// Tests ended, the slowest first.
	Tests []Test
	// Failed are those of Tests that failed.
	Failed []Test
	// Wrong says what else failed, which no test that is run again can mend: a package that
	// does not build or end, a data race, a panic, or go test itself.
	Wrong []string
}

// Read copies the events from r to keep and shows them on out. An event {"Action":"fail"}
// without a package says that go test failed.
func Read(r io.Reader, keep, out io.Writer) (Result, error) {
	d := display{out: out, packages: map[string]*output{}}
	in := bufio.NewReader(io.TeeReader(r, keep))
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			if err := d.add(line); err != nil {
				return Result{}, err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return Result{}, fmt.Errorf("read the events: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.packages)) {
		if name != "" { // what is built has no package
			d.Wrong = append(d.Wrong, name+" did not end")
		}
	}
	if d.goFailed > d.packagesFailed && len(d.Wrong) == 0 { // a package fails with each go test that fails
		d.Wrong = append(d.Wrong, "go test")
	}
	slices.SortStableFunc(d.Tests, func(a, b Test) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return d.Result, nil
}

// Print writes the first n tests, one a line.
func Print(out io.Writer, tests []Test, n int) error {
	for _, t := range tests[:min(n, len(tests))] {
		if _, err := fmt.Fprintf(out, "%8.2f s  %s %s\n", t.Seconds, t.Package, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// display keeps what tests print until it is known whether they fail.
type display struct {
	Result
	out      io.Writer
	packages map[string]*output
	// goFailed and packagesFailed count the runs of go test and the packages that failed.
	goFailed, packagesFailed int
}

// output is what a package has printed by itself, and what its tests have printed
// that did not pass, by name and in the order in which they began.
type output struct {
	own    []string
	tests  map[string][]string
	order  []string
	failed map[string]bool
}

func (d *display) add(line string) error {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		return d.show(line) // the go command's own words
	}
	if e.Action == "fail" && e.Package == "" {
		d.goFailed++
		return nil
	}
	p := d.packages[e.Package]
	if p == nil {
		p = &output{tests: map[string][]string{}, failed: map[string]bool{}}
		d.packages[e.Package] = p
	}
	switch e.Action {
	case "build-output":
		return d.show(e.Output)
	case "output":
		p.add(e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			delete(d.packages, e.Package)
			d.endedWhole(e, p)
			return d.show(p.lines(e.Action)...)
		}
		d.ended(e, p)
	}
	return nil
}

// endedWhole notes that a package has ended.
func (d *display) endedWhole(e event, p *output) {
	if e.Action != "fail" {
		return
	}
	d.packagesFailed++
	if p.wrong() {
		d.Wrong = append(d.Wrong, e.Package)
	}
}

// ended notes that a test has ended.
func (d *display) ended(e event, p *output) {
	test := Test{e.Package, e.Test, e.Elapsed}
	top := !strings.Contains(e.Test, "/")
	if top {
		d.Tests = append(d.Tests, test)
	}
	if e.Action != "fail" {
		delete(p.tests, e.Test)
		return
	}
	p.failed[e.Test] = true
	if top {
		d.Failed = append(d.Failed, test)
	}
}

func (d *display) show(lines ...string) error {
	for _, line := range lines {
		if _, err := io.WriteString(d.out, line); err != nil {
			return fmt.Errorf("show a test: %w", err)
		}
	}
	return nil
}

// add keeps a line of output, but for those with which -json marks where a test
// goes on.
func (p *output) add(e event) {
	if e.Test == "" {
		p.own = append(p.own, e.Output)
		return
	}
	if strings.HasPrefix(e.Output, "=== ") {
		return
	}
	if _, known := p.tests[e.Test]; !known {
		p.order = append(p.order, e.Test)
	}
	p.tests[e.Test] = append(p.tests[e.Test], e.Output)
}

// wrong reports whether a package failed by more than tests that failed one by one.
func (p *output) wrong() bool {
	all := slices.Clone(p.own)
	for test, lines := range p.tests {
		if !p.failed[test] {
			return true // the test did not end
		}
		all = append(all, lines...)
	}
	return len(p.failed) == 0 || slices.ContainsFunc(all, func(line string) bool {
		// The report of a race may be among the output of another test; the test's own sentence is not.
		return strings.Contains(line, "WARNING: DATA RACE") || strings.Contains(line, "race detected ") ||
			strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	})
}

// lines returns what go test shows of a package. Of a package that failed this is
// all that its tests printed which failed or did not end.
func (p *output) lines(result string) []string {
	if result != "fail" {
		return slices.DeleteFunc(p.own, func(line string) bool {
			return !strings.HasPrefix(line, "ok  \t") && !strings.HasPrefix(line, "?   \t")
		})
	}
	var all []string
	for _, test := range p.order {
		all = append(all, p.tests[test]...)
	}
	return append(all, p.own...)
}
