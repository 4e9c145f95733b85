package auditor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Colours of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
)

// Style is how a report is printed.
type Style struct {
	// Colour is for terminals alone.
	Colour bool
}

func (s Style) paint(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\033[" + code + "m" + text + "\033[0m"
}

// Print writes the report for a person.
func (r *Report) Print(out io.Writer, style Style) error {
	var b strings.Builder
	row := func(name string, value any, remark string) {
		fmt.Fprintf(&b, "  %-22s %12v", name, value)
		if remark != "" {
			fmt.Fprintf(&b, "   %s", style.paint(faint, remark))
		}
		b.WriteByte('\n')
	}
	row("requests admitted", r.Requests, "")
	row("calls of clients", r.Calls, r.answers())
	row("settled", r.Settled, "")
	row("open", r.Open, "")
	row("judged by the table", r.Judged, fmt.Sprintf("%d calls left no trace to judge by", r.Untied))
	b.WriteByte('\n')
	for _, j := range r.Judgements {
		colour := green
		if j.Count > 0 {
			colour = red
		}
		fmt.Fprintf(&b, "  %s\n", style.paint(colour, fmt.Sprintf("%-22s %12d", j.Verdict, j.Count)))
		list(&b, j.Findings, j.Count)
	}
	if r.Doubts > 0 {
		fmt.Fprintf(&b, "\n  %s\n", style.paint(yellow, fmt.Sprintf("%-22s %12d", "could not be told", r.Doubts)))
		list(&b, r.Undecided, r.Doubts)
	}
	if len(r.Settlement) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range r.Settlement {
		row("settlement", n.N, n.Name)
	}
	if len(r.Notes)+len(r.Unjudged) > 0 {
		b.WriteByte('\n')
	}
	for _, n := range r.Notes {
		row("note", n.N, n.Name)
	}
	for _, n := range r.Unjudged {
		row("not judged", n.N, "rows of "+n.Name)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}

// list writes findings below their verdict.
func list(b *strings.Builder, all []Finding, count int) {
	for _, f := range all {
		fmt.Fprintf(b, "      %s: %s\n", f.Subject, f.Text)
	}
	if more := count - len(all); more > 0 {
		fmt.Fprintf(b, "      and %d more\n", more)
	}
}

// answers is what clients saw, in one line.
func (r *Report) answers() string {
	var parts []string
	for _, c := range r.Answers {
		if c.N > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", c.Name, c.N))
		}
	}
	return strings.Join(parts, ", ")
}

// JSON writes the report for a program.
func (r *Report) JSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}
