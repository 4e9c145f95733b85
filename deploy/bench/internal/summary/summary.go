// Package summary shows figures and gates: to a person at a terminal, as JSON,
// and as the table that stands in a document between two marks.
package summary

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
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
	// Machine says when and on what it ran, in a few words.
	Machine string
	// Picture is where the plot stands, from the document; "" shows none.
	Picture string
}

// columns are the targets that are shown, in order, with their headings.
var columns = []struct{ target, heading string }{
	{"nginx", "nginx"}, {"goproxy", "Go proxy"}, {figures.Mono, "floor, one process"}, {figures.Split, "floor, split"},
	{figures.Standalone, "standalone"}, {figures.Grouped, "grouped"}, {figures.Fleet, "fleet"},
	{figures.Ledger, "ledger"}, {figures.Hub, "hub"},
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
		Load       float64         `json:"load"`
		Behind     []string        `json:"behind,omitempty"`
		Figures    []row           `json:"figures"`
		Gates      []gates.Verdict `json:"gates"`
	}{Machine: s.Machine, Reference: s.Table.Reference, SyncMicros: s.Table.SyncMicros,
		Load: s.Table.Load, Behind: s.Table.Behind, Gates: s.Verdicts}
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
		"  (… ×) is the ratio to %s, the median of the rounds' own ratios, with the lowest and the highest of them;\n"+
			"  (… net) is less the flushes that the path waits for, at %s µs each (fdatasync p50 in this run)\n\n",
		s.Table.Reference, number(s.Table.SyncMicros))
	for _, r := range s.shown() {
		fmt.Fprintf(&b, "  %s\n", r.Title)
		for _, c := range columns {
			if cell, ok := r.Cells[c.target]; ok {
				fmt.Fprintf(&b, "    %s %s\n", pad(c.heading, 20), full(r.Figure, cell, c.target == s.Table.Reference))
			}
		}
	}
	for _, sentence := range s.Table.Behind {
		fmt.Fprintf(&b, "\n  %s\n", sentence)
	}
	fmt.Fprintf(&b, "\n%s\n\n  %s %s %s %s %s\n", p.bold("Gates"), pad("", 60), pad("measured", 12), pad("gate", 20),
		pad("target", 20), "stretch")
	for _, v := range s.Verdicts {
		row, _ := s.Table.Row(v.Figure)
		fmt.Fprintf(&b, "  %s %s %s %s %s\n", pad(v.Target+": "+row.Title, 60), pad(counted(row, v, v.Measured), 12),
			p.level(row, v, v.Gate, 20), p.level(row, v, v.Aim, 20), p.level(row, v, v.Stretch, 0)+s.verdict(v))
	}
	if s.busy() {
		fmt.Fprintf(&b, "\n  %s\n", p.red("Figures of time are "+s.unjudged()+", above "+number(gates.MaxLoad)+"."))
	}
	if missed := gates.Missed(s.Verdicts); len(missed) > 0 {
		fmt.Fprintf(&b, "\n  %s\n", p.red(fmt.Sprintf("%d of %d gates missed.", len(missed), s.gated())))
	} else {
		fmt.Fprintf(&b, "\n  %s\n", p.green("No gate missed of those measured."))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// gated returns how many figures have a gate. Others have a target alone.
func (s Summary) gated() int {
	n := 0
	for _, v := range s.Verdicts {
		if v.Gate != nil {
			n++
		}
	}
	return n
}

// busy reports whether others kept the machine too busy to judge figures of time.
func (s Summary) busy() bool {
	return slices.ContainsFunc(s.Verdicts, func(v gates.Verdict) bool { return v.Unjudged })
}

// unjudged is what stands in place of a judgement.
func (s Summary) unjudged() string { return "not judged: load " + number(s.Table.Load) }

// verdict is what stands at the end of a row that is not judged.
func (s Summary) verdict(v gates.Verdict) string {
	if !v.Unjudged {
		return ""
	}
	return " " + s.unjudged()
}

// full is a cell with all that belongs to it; that of the reference with its spread.
func full(f figures.Figure, c figures.Cell, reference bool) string {
	text := value(f.Unit, c.Value)
	switch {
	case c.Ratio > 0 && c.RatioLow < c.RatioHigh:
		text += fmt.Sprintf(" (%s ×, %s to %s)", number(c.Ratio), number(c.RatioLow), number(c.RatioHigh))
	case c.Ratio > 0:
		text += fmt.Sprintf(" (%s ×)", number(c.Ratio))
	case reference && c.Low < c.High:
		text += fmt.Sprintf(" (%s to %s)", number(c.Low), number(c.High))
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
	if v.Unjudged {
		width = max(width, 14) // more stands behind
	}
	if l == nil {
		return pad("–", width)
	}
	text := bound(r, v, l)
	switch {
	case v.Unjudged:
		return pad(text, width)
	case l.Met:
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
