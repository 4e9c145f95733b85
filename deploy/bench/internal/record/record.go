// Package record keeps what a benchmark measured, one JSON object on a line,
// so that tables can be printed again, and reads medians out of it. A record
// is either the result of a load or one number with a name.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"inference-bench/internal/loadgen"
)

// Machine is the target of what belongs to the machine and not to a product.
const Machine = "machine"

// Record is one line.
type Record struct {
	Target string `json:"target"`
	Round  int    `json:"round"`
	// Scenario and Result belong to a load.
	Scenario string          `json:"scenario,omitempty"`
	Result   *loadgen.Result `json:"result,omitempty"`
	// Measure names a number, its unit last in the name, or a text.
	Measure string  `json:"measure,omitempty"`
	Value   float64 `json:"value,omitempty"`
	Text    string  `json:"text,omitempty"`
}

// Writer appends records to a file.
type Writer struct{ f *os.File }

// Append opens file for more records.
func Append(file string) (*Writer, error) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{f: f}, nil
}

// Write appends one record.
func (w *Writer) Write(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a record: %w", err)
	}
	_, err = w.f.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (w *Writer) Close() error { return w.f.Close() }

// Set is all that was measured.
type Set []Record

// Load reads a file of records.
func Load(file string) (Set, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(f)
}

// Read reads records until r ends.
func Read(r io.Reader) (Set, error) {
	var set Set
	for d := json.NewDecoder(r); ; {
		var rec Record
		switch err := d.Decode(&rec); {
		case errors.Is(err, io.EOF):
			return set, nil
		case err != nil:
			return nil, fmt.Errorf("record %d: %w", len(set)+1, err)
		}
		set = append(set, rec)
	}
}

// Results are those of one target in one scenario. A round in which nothing
// came through counts among the failures and not here.
func (s Set) Results(scenario, target string) []*loadgen.Result {
	var out []*loadgen.Result
	for _, r := range s {
		if r.Result != nil && r.Scenario == scenario && r.Target == target && r.Result.Requests+r.Result.Chunks > 0 {
			out = append(out, r.Result)
		}
	}
	return out
}

// Median is that of f over the rounds of a scenario, and their number.
func (s Set) Median(scenario, target string, f func(*loadgen.Result) float64) (float64, int) {
	var v []float64
	for _, r := range s.Results(scenario, target) {
		v = append(v, f(r))
	}
	return Median(v), len(v)
}

// Failures are errors, streams cut short and answers without usage, and all
// answers, of one target; of every scenario when that is empty.
func (s Set) Failures(scenario, target string) (failed, all uint64) {
	for _, r := range s {
		if r.Result == nil || r.Target != target || scenario != "" && r.Scenario != scenario {
			continue
		}
		bad := r.Result.Errors + r.Result.Short + r.Result.NoUsage
		failed += bad
		all += r.Result.Requests + r.Result.Errors
	}
	return failed, all
}

// Measure is the median of a named number, and how often it was taken.
func (s Set) Measure(name, target string) (float64, int) {
	var v []float64
	for _, r := range s {
		if r.Measure == name && r.Target == target {
			v = append(v, r.Value)
		}
	}
	return Median(v), len(v)
}

// Text is the last text of that name about the machine.
func (s Set) Text(name string) string {
	for _, r := range slices.Backward(s) {
		if r.Measure == name && r.Target == Machine {
			return r.Text
		}
	}
	return ""
}

// Median of v, the mean of the two in the middle when their number is even; 0
// of nothing.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
