// Package audit names the invariants of settlement and reports which of them hold. The store recomputes each from the
// rows themselves, on one view of the data, and writes nothing.
package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// MaxExamples bounds how many drifts of an invariant are named; all of them are counted.
const MaxExamples = 10

// Invariant is one rule and the result of its check.
type Invariant struct {
	Name string `json:"name"`
	// Checked is the number of rows that were looked at, Drift the number that break the rule.
	Checked  int64    `json:"checked"`
	Drift    int64    `json:"drift"`
	Examples []string `json:"examples,omitempty"`
	// Unknown says why the check could not be made; then what was found so far is not all. It is empty otherwise.
	Unknown string `json:"unknown,omitempty"`
}

// Found counts one drift.
func (i *Invariant) Found(format string, args ...any) {
	i.Drift++
	if len(i.Examples) < MaxExamples {
		i.Examples = append(i.Examples, fmt.Sprintf(format, args...))
	}
}

// First counts one drift that is named before all others.
func (i *Invariant) First(format string, args ...any) {
	i.Drift++
	i.Examples = slices.Insert(i.Examples, 0, fmt.Sprintf(format, args...))
	i.Examples = i.Examples[:min(len(i.Examples), MaxExamples)]
}

// Report is the whole result.
type Report struct {
	Invariants []Invariant `json:"invariants"`
	Drift      int64       `json:"drift"`
	// Unknown counts the checks that could not be made.
	Unknown int `json:"unknown,omitempty"`
}

// NewReport sums what was found.
func NewReport(found []Invariant) Report {
	r := Report{Invariants: found}
	for _, i := range found {
		r.Drift += i.Drift
		if i.Unknown != "" {
			r.Unknown++
		}
	}
	return r
}

// Print writes the report as an aligned table with every named drift below.
func (r Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "invariant\tchecked\tdrift\t\n")
	for _, i := range r.Invariants {
		if i.Unknown != "" && i.Drift == 0 {
			fmt.Fprintf(w, "%s\t%d\tnot known\t\n", i.Name, i.Checked)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t\n", i.Name, i.Checked, i.Drift)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	for _, i := range r.Invariants {
		for _, example := range i.Examples {
			fmt.Fprintf(out, "DRIFT %s: %s\n", i.Name, example)
		}
		if i.Unknown != "" {
			fmt.Fprintf(out, "NOT KNOWN %s: %s\n", i.Name, i.Unknown)
		}
	}
	last := fmt.Sprintf("\ndrift: %d\n", r.Drift)
	if r.Unknown > 0 {
		last += fmt.Sprintf("not known: %d\n", r.Unknown)
	}
	if _, err := io.WriteString(out, last); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// PrintJSON writes the report for programs.
func (r Report) PrintJSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
