package growth

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"inference-bench/internal/sheet"
)

// Text writes a table of each axis with its verdict.
func Text(w io.Writer, axes []Axis) error {
	var b strings.Builder
	for _, a := range axes {
		fmt.Fprintf(&b, "\n  %s: %s\n  %s\n\n", strings.ToUpper(a.Name[:1])+a.Name[1:], a.Title, a.Machine)
		table(&b, a.lines())
		verdict, why := a.Judge()
		fmt.Fprintf(&b, "\n  %s: %s\n", verdict, why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines are the cells of an axis's table with its heading. The ratio to the first step stands behind each judged
// figure, and the note is last.
func (a Axis) lines() [][]string {
	head := []string{a.Name}
	for f, figure := range a.Figures {
		head = append(head, strings.TrimSuffix(figure.Name+", "+figure.Unit, ", "))
		if f < a.Judged {
			head = append(head, "to the first")
		}
	}
	lines := [][]string{append(head, "")}
	for i, s := range a.Steps {
		line := []string{grouped(s.Size)}
		for f := range a.Figures {
			value := "–"
			if f < len(s.Values) {
				value = sheet.Number(s.Values[f])
			}
			line = append(line, value)
			if f < a.Judged {
				line = append(line, a.ratio(i, f))
			}
		}
		lines = append(lines, append(line, s.Note))
	}
	return lines
}

func (a Axis) ratio(step, f int) string {
	ratio, ok := a.Ratio(step, f)
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.2f ×", ratio)
}

// table aligns all cells but the last of a line at their ends.
func table(b *strings.Builder, lines [][]string) {
	widths := make([]int, len(lines[0])-1)
	for _, l := range lines {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(l[i]))
		}
	}
	for _, l := range lines {
		var line strings.Builder
		for i, width := range widths {
			line.WriteString("  " + strings.Repeat(" ", width-utf8.RuneCountInString(l[i])) + l[i])
		}
		b.WriteString(strings.TrimRight(line.String()+"  "+l[len(l)-1], " ") + "\n")
	}
}

// JSON writes all axes with their verdicts as one object.
func JSON(w io.Writer, axes []Axis) error {
	type judged struct {
		Axis
		Verdict Verdict `json:"verdict"`
		Why     string  `json:"why"`
	}
	out := struct {
		Bound float64  `json:"bound"`
		Axes  []judged `json:"axes"`
	}{Bound: Bound, Axes: []judged{}}
	for _, a := range axes {
		verdict, why := a.Judge()
		out.Axes = append(out.Axes, judged{a, verdict, why})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
