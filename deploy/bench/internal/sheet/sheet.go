// Package sheet shows figures beside their gates, for a terminal or as JSON.
package sheet

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Row is one figure. A row without a gate helps to read the other rows.
type Row struct {
	Part   string `json:"part"`
	Figure string `json:"figure"`
	Unit   string `json:"unit,omitempty"`
	// Value is nil where it could not be measured; Note says why, or what else
	// there is to say.
	Value *float64 `json:"value"`
	// Gate is the most that the value may be, or what it must stay below where
	// Strict is set; Aim is what is hoped for.
	Gate   *float64 `json:"gate,omitempty"`
	Strict bool     `json:"strict,omitempty"`
	Aim    *float64 `json:"aim,omitempty"`
	Note   string   `json:"note,omitempty"`
	// Verdict is pass, missed, or not measured; empty without a gate.
	Verdict string `json:"verdict,omitempty"`
}

// Verdicts.
const (
	Pass        = "pass"
	Missed      = "missed"
	NotMeasured = "not measured"
)

// judge fills in the verdict.
func (r *Row) judge() {
	switch {
	case r.Gate == nil:
	case r.Value == nil:
		r.Verdict = NotMeasured
	case *r.Value > *r.Gate || r.Strict && *r.Value == *r.Gate:
		r.Verdict = Missed
	default:
		r.Verdict = Pass
	}
}

// Sheet is rows and what they were measured on.
type Sheet struct {
	Machine map[string]string `json:"machine"`
	Rows    []Row             `json:"figures"`
}

// Add judges a row and takes it.
func (s *Sheet) Add(r Row) {
	r.judge()
	s.Rows = append(s.Rows, r)
}

// JSON writes the sheet as one object.
func (s *Sheet) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// Text writes the rows as an aligned table.
func (s *Sheet) Text(w io.Writer) error {
	lines := [][]string{{"", "figure", "measured", "gate", "", ""}}
	part := ""
	for _, r := range s.Rows {
		first := ""
		if r.Part != part {
			first, part = r.Part, r.Part
		}
		lines = append(lines, []string{first, r.Figure, r.measured(), r.bounds(), r.Verdict, r.Note})
	}
	widths := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, cell := range l {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, l := range lines {
		var b strings.Builder
		for i, cell := range l {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 2 { // numbers end together
				cell, pad = pad+cell, ""
			}
			b.WriteString("  " + cell + pad)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

func (r Row) measured() string {
	if r.Value == nil {
		return "–"
	}
	return strings.TrimSpace(Number(*r.Value) + " " + r.Unit)
}

func (r Row) bounds() string {
	if r.Gate == nil {
		return ""
	}
	sign := "≤ "
	if r.Strict {
		sign = "< "
	}
	text := sign + Number(*r.Gate)
	if r.Aim != nil {
		text += ", aim " + Number(*r.Aim)
	}
	return text
}

// Number writes a value with three digits, or all that stand before the point.
func Number(v float64) string {
	size := v
	if size < 0 {
		size = -size
	}
	digits := 2
	switch {
	case size >= 99.95:
		digits = 0
	case size >= 9.995:
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}
