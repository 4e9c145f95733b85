// Package summary shows figures and gates: to a person at a terminal, as JSON,
// and as the table that stands in a document between two marks.
package summary

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"inference-bench/internal/figures"
	"inference-bench/internal/gates"
)

// Summary is all that is shown.
type Summary struct {
	Table    figures.Table
	Verdicts []gates.Verdict
	// Machine says what it ran on, in a few words.
	Machine string
}

// columns are the targets that are shown, in order, with their headings.
var columns = []struct{ target, heading string }{
	{"nginx", "nginx"}, {"goproxy", "Go proxy"}, {figures.Mono, "floor, one process"}, {figures.Split, "floor, split"},
	{figures.Standalone, "standalone"}, {figures.Fleet, "fleet"}, {figures.Ledger, "ledger"}, {figures.Hub, "hub"},
}

// JSON writes everything as one object.
func (s Summary) JSON(w io.Writer) error {
	type row struct {
		ID    string                  `json:"id"`
		Title string                  `json:"title"`
		Unit  string                  `json:"unit,omitempty"`
		Cells map[string]figures.Cell `json:"targets"`
	}
	out := struct {
		Machine    string          `json:"machine"`
		Reference  string          `json:"reference"`
		SyncMicros float64         `json:"fdatasync_p50_us"`
		Figures    []row           `json:"figures"`
		Gates      []gates.Verdict `json:"gates"`
	}{Machine: s.Machine, Reference: s.Table.Reference, SyncMicros: s.Table.SyncMicros, Gates: s.Verdicts}
	for _, r := range s.shown() {
		out.Figures = append(out.Figures, row{r.ID, r.Title, string(r.Unit), r.Cells})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// shown are the rows that have something to show.
func (s Summary) shown() []figures.Row {
	var out []figures.Row
	for _, r := range s.Table.Rows {
		if !r.Hidden && len(r.Cells) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// Terminal writes the figures and then the gates, with colours if asked for.
func (s Summary) Terminal(w io.Writer, colours bool) error {
	p := paint{on: colours}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", p.bold("Figures")+"  "+s.Machine)
	fmt.Fprintf(&b,
		"  (… ×) is the ratio to %s; (… net) is less the flushes that the path waits for, "+
			"at %s µs each (fdatasync p50 in this run)\n\n",
		s.Table.Reference, number(s.Table.SyncMicros))
	for _, r := range s.shown() {
		fmt.Fprintf(&b, "  %s\n", r.Title)
		for _, c := range columns {
			if cell, ok := r.Cells[c.target]; ok {
				fmt.Fprintf(&b, "    %s %s\n", pad(c.heading, 20), full(r.Figure, cell))
			}
		}
	}
	fmt.Fprintf(&b, "\n%s\n\n  %s %s %s %s %s\n", p.bold("Gates"), pad("", 60), pad("measured", 12), pad("gate", 20),
		pad("target", 20), "stretch")
	for _, v := range s.Verdicts {
		row, _ := s.Table.Row(v.Figure)
		fmt.Fprintf(&b, "  %s %s %s %s %s\n", pad(v.Target+": "+row.Title, 60), pad(counted(row, v, v.Measured), 12),
			p.level(row, v, v.Gate, 20), p.level(row, v, v.Aim, 20), p.level(row, v, v.Stretch, 0))
	}
	if missed := gates.Missed(s.Verdicts); len(missed) > 0 {
		fmt.Fprintf(&b, "\n  %s\n", p.red(fmt.Sprintf("%d of %d gates missed.", len(missed), len(s.Verdicts))))
	} else {
		fmt.Fprintf(&b, "\n  %s\n", p.green("No gate missed of those measured."))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// full is a cell with all that belongs to it.
func full(f figures.Figure, c figures.Cell) string {
	text := value(f.Unit, c.Value)
	if c.Ratio > 0 {
		text += fmt.Sprintf(" (%s ×)", number(c.Ratio))
	}
	if c.Net != nil {
		text += fmt.Sprintf(" (%s net)", number(*c.Net))
	}
	return text
}

// counted is a number in the unit that the gate counts in.
func counted(r figures.Row, v gates.Verdict, x float64) string {
	if r.Ratio && !v.Absolute {
		return number(x) + " ×"
	}
	return value(r.Unit, x)
}

func value(unit figures.Unit, x float64) string {
	switch unit {
	case figures.Count, figures.Share:
		return number(x)
	case figures.PerSecond:
		return number(x) + string(unit)
	default:
		return number(x) + " " + string(unit)
	}
}

// number shows three digits that mean something, and thousands in groups.
func number(x float64) string {
	abs := math.Abs(x)
	switch {
	case x == math.Trunc(x) && abs < 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case abs < 9.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case abs < 99.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(abs, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if x < 0 {
		return "-" + digits
	}
	return digits
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// paint colours text for a terminal.
type paint struct{ on bool }

func (p paint) in(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p paint) bold(text string) string  { return p.in("1", text) }
func (p paint) red(text string) string   { return p.in("31", text) }
func (p paint) green(text string) string { return p.in("32", text) }

func (p paint) level(r figures.Row, v gates.Verdict, l *gates.Level, width int) string {
	if l == nil {
		return pad("–", width)
	}
	text := bound(r, v, l)
	if l.Met {
		return p.green(pad(text+" ok", width))
	}
	return p.red(pad(text+" MISSED", width))
}

func bound(r figures.Row, v gates.Verdict, l *gates.Level) string {
	sign := "≤ "
	if v.AtLeast {
		sign = "≥ "
	}
	return sign + counted(r, v, l.Bound)
}
