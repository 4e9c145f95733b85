package summary

import (
	"bytes"
	"fmt"
	"html"
	"math"

	"inference-bench/internal/figures"
	"inference-bench/internal/gates"
)

// Sizes of the plot, in its own units.
const (
	plotWidth  = 860
	plotLeft   = 150 // where 1 × is
	plotRight  = 770 // where the scale ends
	plotValues = 844 // where the values end
	plotTop    = 64
	barHeight  = 11
	barStep    = 16
	titleStep  = 22
	blockSpace = 12
	footHeight = 64
)

// plotStyle has colours for both a light and a dark page, and fonts of the reader's
// own machine. The plot has a background of its own, because a document's page need
// not follow what the reader's system prefers.
const plotStyle = `<style>
svg{color-scheme:light dark}
text{font:12px system-ui,sans-serif;fill:#1f2328}
.head{font-size:15px;font-weight:600}.title{font-weight:600}.small{font-size:11px;fill:#59636e}
.page{fill:#ffffff}.grid{stroke:#d1d9e0}.bar{fill:#8c959f}.mine{fill:#0969da}.spread{stroke:#1f2328;stroke-width:1.5}
.gate{stroke:#cf222e;stroke-width:2}.target{stroke:#9a6700;stroke-width:2;stroke-dasharray:5 3}
.stretch{stroke:#1a7f37;stroke-width:2;stroke-dasharray:2 3}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.page{fill:#0d1117}.grid{stroke:#3d444d}
.bar{fill:#656c76}.mine{fill:#4493f8}.spread{stroke:#f0f6fc}.gate{stroke:#f85149}.target{stroke:#d29922}
.stretch{stroke:#3fb950}}
</style>
`

// levels are the bounds of a verdict by the class that draws them.
func levels(v gates.Verdict) map[string]*gates.Level {
	return map[string]*gates.Level{"gate": v.Gate, "target": v.Aim, "stretch": v.Stretch}
}

// levelNames are the classes in the order in which they are drawn.
var levelNames = []string{"gate", "target", "stretch"}

// block is a figure of the plot with its bars.
type block struct {
	row    figures.Row
	bars   []string // targets
	levels map[string]*gates.Level
}

// blocks are the figures that are ratios and were measured, with the bounds that
// the product in one process is held against.
func (s Summary) blocks() []block {
	var out []block
	for _, r := range s.shown() {
		b := block{row: r}
		for _, c := range columns {
			if r.Ratio && r.Cells[c.target].Ratio > 0 {
				b.bars = append(b.bars, c.target)
			}
		}
		for _, v := range s.Verdicts {
			if v.Figure == r.ID && v.Target == figures.Standalone {
				b.levels = levels(v)
			}
		}
		if len(b.bars) > 0 {
			out = append(out, b)
		}
	}
	return out
}

func (b block) height() int { return titleStep + barStep*len(b.bars) + blockSpace }

// scale is logarithmic, from 1 to the first of 1, 2, 5, 10 and so on that is not
// below anything shown.
type scale struct{ ticks []float64 }

func scaleOf(blocks []block) scale {
	end := 2.0
	for _, b := range blocks {
		for _, target := range b.bars {
			c := b.row.Cells[target]
			end = max(end, c.Ratio, c.RatioHigh)
		}
		for _, l := range b.levels {
			if l != nil {
				end = max(end, l.Bound)
			}
		}
	}
	s := scale{ticks: []float64{1}}
	for ten := 1.0; ; ten *= 10 {
		for _, step := range []float64{2, 5, 10} {
			s.ticks = append(s.ticks, step*ten)
			if step*ten >= end {
				return s
			}
		}
	}
}

// x is where a ratio stands; one below 1 stands at 1.
func (s scale) x(ratio float64) float64 {
	end := s.ticks[len(s.ticks)-1]
	return plotLeft + (plotRight-plotLeft)*math.Log(max(ratio, 1))/math.Log(end)
}

// Plot is an SVG image of the CPU of each target as a ratio to the reference, with
// the bounds of the product in one process. The same figures make the same bytes. It
// is nil when no ratio was measured.
func (s Summary) Plot() []byte {
	blocks := s.blocks()
	if len(blocks) == 0 {
		return nil
	}
	sc := scaleOf(blocks)
	bottom := plotTop
	for _, b := range blocks {
		bottom += b.height()
	}
	height := bottom + footHeight
	var out bytes.Buffer
	name := heading(s.Table.Reference)
	out.WriteString(`<svg xmlns="http://www.w3.org/2000/svg"`)
	fmt.Fprintf(&out, ` viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", plotWidth, height, plotWidth, height)
	fmt.Fprintf(&out, "<title>CPU of each target as a ratio to %s</title>\n", html.EscapeString(name))
	out.WriteString(plotStyle)
	fmt.Fprintf(&out, `<rect class="page" width="%d" height="%d" rx="6"/>`+"\n", plotWidth, height)
	text(&out, "head", 16, 28, "start", "CPU of each target as a ratio to "+name+", which is 1 × (logarithmic)")
	for _, tick := range sc.ticks {
		line(&out, "grid", sc.x(tick), plotTop-8, sc.x(tick), float64(bottom))
		text(&out, "small", sc.x(tick), plotTop-14, "middle", number(tick)+" ×")
	}
	y := plotTop
	for _, b := range blocks {
		b.draw(&out, sc, y)
		y += b.height()
	}
	s.foot(&out, bottom)
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func (b block) draw(out *bytes.Buffer, sc scale, y int) {
	text(out, "title", 16, float64(y)+13, "start", b.row.Title)
	top := y + titleStep
	for i, target := range b.bars {
		c, at := b.row.Cells[target], float64(top+i*barStep)
		class := "bar"
		if target == figures.Standalone {
			class = "mine"
		}
		text(out, "", plotLeft-8, at+barHeight-1, "end", heading(target))
		fmt.Fprintf(out, `<rect class="%s" x="%d" y="%.1f" width="%.1f" height="%d"/>`+"\n", class, plotLeft, at,
			sc.x(c.Ratio)-plotLeft, barHeight)
		if c.RatioLow < c.RatioHigh {
			line(out, "spread", sc.x(c.RatioLow), at+barHeight/2.0, sc.x(c.RatioHigh), at+barHeight/2.0)
		}
		text(out, "", plotValues, at+barHeight-1, "end", number(c.Ratio)+" ×")
	}
	for _, name := range levelNames {
		if l := b.levels[name]; l != nil {
			line(out, name, sc.x(l.Bound), float64(top-4), sc.x(l.Bound), float64(top+barStep*len(b.bars)))
		}
	}
}

// foot explains the marks, and says when and on what it was measured.
func (s Summary) foot(out *bytes.Buffer, bottom int) {
	at := 16.0
	for _, name := range levelNames {
		line(out, name, at, float64(bottom+6), at, float64(bottom+20))
		text(out, "small", at+8, float64(bottom+17), "start", name)
		at += 72
	}
	about := "of the product in one process; thin lines are the lowest and the highest round"
	if s.busy() {
		about += "; " + s.unjudged()
	}
	text(out, "small", at, float64(bottom+17), "start", about)
	text(out, "small", 16, float64(bottom+42), "start", s.Machine)
}

func text(out *bytes.Buffer, class string, x, y float64, anchor, words string) {
	fmt.Fprintf(out, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor,
		html.EscapeString(words))
}

func line(out *bytes.Buffer, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(out, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}
