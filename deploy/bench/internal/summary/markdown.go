package summary

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"inference-bench/internal/figures"
	"inference-bench/internal/gates"
)

// Marks between which a document's table stands.
const (
	begin = "<!-- bench -->"
	end   = "<!-- /bench -->"
)

// Errors of Replace.
var errMarks = errors.New("the document must have " + begin + " and then " + end + ", once each")

// Replace puts table between the marks of a document.
func Replace(document, table string) (string, error) {
	head, rest, ok := strings.Cut(document, begin)
	if !ok {
		return "", errMarks
	}
	_, tail, ok := strings.Cut(rest, end)
	if !ok || strings.Contains(head+tail, begin) || strings.Contains(head+tail, end) {
		return "", errMarks
	}
	return head + begin + "\n" + strings.TrimSpace(table) + "\n" + end + tail, nil
}

// inDocument are the targets with a column of their own in the document. The
// ledger's and the hub's own benchmarks stand in the column of the product.
var inDocument = []string{"nginx", "goproxy", figures.Standalone, figures.Grouped, figures.Fleet}

// Markdown is the table for a document.
func (s Summary) Markdown() string {
	shown := s.columnsOfDocument()
	var b strings.Builder
	b.WriteString("| |")
	for _, target := range shown {
		fmt.Fprintf(&b, " %s |", heading(target))
	}
	b.WriteString(" gate · target · stretch | reached |\n|---|" + strings.Repeat("--:|", len(shown)) + "---|---|\n")
	for _, r := range s.shown() {
		cells := make([]string, 0, len(shown))
		for _, target := range shown {
			cells = append(cells, s.inCell(r, target))
		}
		if strings.Join(cells, "") == "" {
			continue
		}
		bounds, reached := s.reached(r)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", title(r), strings.Join(cells, " | "), bounds, reached)
	}
	if s.Picture != "" {
		fmt.Fprintf(&b, "\n![CPU of each target as a ratio to %s, with the gates](%s)\n", heading(s.Table.Reference),
			s.Picture)
	}
	fmt.Fprintf(&b, "\n%s. Bold is held against the gates: for CPU the median of the rounds' ratios to %s, whose lowest "+
		"and highest round stand beside it, for latency what is left without the flushes to disk that the path waits for",
		s.Machine, heading(s.Table.Reference))
	if s.Table.SyncMicros > 0 {
		fmt.Fprintf(&b, " (one for the hold, one for the usage; %s µs each, the median in the same run)",
			number(s.Table.SyncMicros))
	}
	b.WriteString(".")
	if s.busy() {
		fmt.Fprintf(&b, " Figures of time are **%s**.", s.unjudged())
	}
	for _, sentence := range s.Table.Behind {
		b.WriteString(" In the open loop " + sentence + ".")
	}
	if held := s.fleetHeld(); len(held) > 0 {
		fmt.Fprintf(&b, " The fleet is held against 1.5 × the floor of separate processes and the ledger's share: %s.",
			strings.Join(held, ", "))
	}
	return b.String() + "\n"
}

// fleetHeld says for each bound of separate processes what they take and what
// they may.
func (s Summary) fleetHeld() []string {
	var out []string
	for _, v := range s.Verdicts {
		if v.Target != figures.Fleet && v.Target != figures.Grouped {
			continue
		}
		r, _ := s.Table.Row(v.Figure)
		name, _, _ := strings.Cut(r.Title, ", one connection")
		if v.Target == figures.Grouped {
			name = "grouped, " + name
		}
		switch {
		case v.Gate != nil && v.Gate.Bound > 0:
			out = append(out, fmt.Sprintf("%s %s (%s)", name, counted(r, v, v.Measured), bound(r, v, v.Gate)))
		case v.Gate == nil && v.Aim != nil:
			out = append(out, fmt.Sprintf("%s %s (target %s)", name, counted(r, v, v.Measured), bound(r, v, v.Aim)))
		}
	}
	return out
}

func (s Summary) columnsOfDocument() []string {
	var out []string
	for _, target := range inDocument {
		if slices.ContainsFunc(s.shown(), func(r figures.Row) bool { _, ok := r.Cells[target]; return ok }) {
			out = append(out, target)
		}
	}
	return out
}

func heading(target string) string {
	for _, c := range columns {
		if c.target == target {
			return c.heading
		}
	}
	return target
}

// title is the figure with its unit, which cells then leave out.
func title(r figures.Row) string {
	if r.Unit == figures.Count || r.Unit == figures.PerSecond && strings.Contains(r.Title, "per second") {
		return r.Title
	}
	if r.Unit == figures.PerSecond {
		return r.Title + ", per second"
	}
	if r.Unit == figures.Share {
		return r.Title
	}
	return r.Title + ", " + string(r.Unit)
}

func (s Summary) inCell(r figures.Row, target string) string {
	c, ok := r.Cells[target]
	if !ok && target == figures.Standalone {
		for _, part := range []string{figures.Ledger, figures.Hub} {
			if c, ok = r.Cells[part]; ok {
				break
			}
		}
	}
	if !ok {
		return ""
	}
	text := number(c.Value)
	if target == s.Table.Reference && r.Ratio && c.Low < c.High {
		text += " (" + number(c.Low) + "–" + number(c.High) + ")"
	}
	if c.Ratio > 0 && target != s.Table.Reference {
		ratio := number(c.Ratio) + " ×"
		if target == figures.Standalone {
			ratio = "**" + ratio + "**"
		}
		text += " · " + ratio
	}
	if c.Net != nil {
		text += " · **" + number(*c.Net) + "**"
	}
	return text
}

// reached says what the product alone in its process is held against, and the
// best level that it reaches.
func (s Summary) reached(r figures.Row) (bounds, best string) {
	for _, v := range s.Verdicts {
		if v.Figure != r.ID || v.Target == figures.Fleet || v.Target == figures.Grouped {
			continue
		}
		var texts []string
		failed := false
		for _, l := range []struct {
			name  string
			level *gates.Level
		}{{"gate", v.Gate}, {"target", v.Aim}, {"stretch", v.Stretch}} {
			if l.level == nil {
				continue
			}
			if text := bound(r, v, l.level); !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
			if failed = failed || !l.level.Met; !failed {
				best = l.name
			}
		}
		switch {
		case v.Unjudged:
			best = s.unjudged()
		case v.Gate != nil && !v.Gate.Met:
			best = "**missed**"
		case len(texts) == 1 && best != "":
			best = "yes"
		}
		return strings.Join(texts, " · "), best
	}
	return "", ""
}
