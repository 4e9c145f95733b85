package lab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"svc.internal/services/verifier/internal/lab/plot"
)

// Report is everything that was measured.
type Report struct {
	// Full reports whether the numbers are those of the design.
	Full bool `json:"full"`
	// Took and CPU are the wall time and the processor time, if the caller measured them.
	Took time.Duration `json:"took_ns,omitempty"`
	CPU  time.Duration `json:"cpu_ns,omitempty"`
	// Gates are in the order of the measurements.
	Gates []Gate `json:"gates"`
	// Charts are by the name of their file.
	Charts map[string]plot.Chart `json:"-"`
}

func (r *Report) add(g Gate) { r.Gates = append(r.Gates, g) }

func (r *Report) chart(name string, c plot.Chart) {
	if r.Charts == nil {
		r.Charts = map[string]plot.Chart{}
	}
	r.Charts[name] = c
}

// Failed reports whether a gate is missed without a known reason.
func (r Report) Failed() bool {
	for _, g := range r.Gates {
		if g.Failed() {
			return true
		}
	}
	return false
}

// counts returns how many gates were met, missed for a known reason, and missed.
func (r Report) counts() (met, known, missed int) {
	for _, g := range r.Gates {
		switch {
		case g.Met:
			met++
		case g.Failed():
			missed++
		default:
			known++
		}
	}
	return met, known, missed
}

// summary says in one sentence how the gates ended, and what it took.
func (r Report) summary() string {
	met, known, missed := r.counts()
	mode := "short"
	if r.Full {
		mode = "full"
	}
	text := fmt.Sprintf("%d gates met, %d missed for a known reason, %d missed; %s run", met, known, missed, mode)
	if r.Took > 0 {
		text += fmt.Sprintf(", %.0f s, %.0f CPU s", r.Took.Seconds(), r.CPU.Seconds())
	}
	return text + "."
}

// WriteTable writes the gates as a table that aligns, the reasons of known misses, and a
// summary.
func (r Report) WriteTable(to io.Writer) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "gate\tdesigned\tmeasured\ttolerance\tverdict")
	for _, g := range r.Gates {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", g.Name, g.Designed, g.Measured, g.Tolerance, g.Verdict())
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	var b strings.Builder
	for _, g := range r.Gates {
		if !g.Met && g.Known != "" {
			fmt.Fprintf(&b, "\n%s: %s", g.Name, g.Known)
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%s\n", r.summary())
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// chartNames are the files of charts, in the order of the report, with their captions.
var chartNames = []struct{ file, caption string }{
	{"detection.svg", "Days until a notice and until the first penalty, by the share of requests served otherwise."},
	{"bound.svg", "Crossings of a threshold in a year of 20,000 observations: the proven bound and the simulation."},
	{"windows.svg", "How far measured context windows are from the true ones."},
	{"auc.svg", "How well a classifier tells probes from consumers' requests: .5 is chance."},
}

// WriteMarkdown writes the report as a page, which shows the charts that there are.
func (r Report) WriteMarkdown(to io.Writer, day time.Time) error {
	var b strings.Builder
	b.WriteString("# What verification measures\n\n")
	fmt.Fprintf(&b, "`make verification` of %s: %s\n\n", day.Format(time.DateOnly), r.summary())
	b.WriteString("| gate | designed | measured | tolerance | verdict |\n|---|--:|--:|--:|---|\n")
	for _, g := range r.Gates {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", g.Name, g.Designed, g.Measured, g.Tolerance, g.Verdict())
	}
	known := false
	for _, g := range r.Gates {
		if !g.Met && g.Known != "" {
			if !known {
				b.WriteString("\n## Missed for a known reason\n\n")
			}
			known = true
			fmt.Fprintf(&b, "- **%s**: %s\n", g.Name, g.Known)
		}
	}
	for _, c := range chartNames {
		if chart, ok := r.Charts[c.file]; ok {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n![%s](%s)\n", chart.Title, c.caption, chart.Title, c.file)
		}
	}
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
