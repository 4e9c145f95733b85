// Package plot draws line charts as SVG, for reports that are read in a browser or on a
// page of a repository. A chart has one horizontal and one vertical axis, each linear or
// logarithmic, and a few series of lines or dots. The same chart always gives the same
// bytes.
//
// Four charts of a report need no library of plotting: the picture is one template.
package plot

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
)

// Axis is an axis from Min to Max.
type Axis struct {
	Label    string
	Min, Max float64
	// Log makes the axis logarithmic: Min must be above 0.
	Log bool
	// Ticks are the numbers that are written at the axis.
	Ticks []float64
}

// Point is a point of a series.
type Point struct{ X, Y float64 }

// Series is a named row of points. Points outside the axes are drawn at their ends.
type Series struct {
	Name   string
	Points []Point
	// Dots draws points and no line between them.
	Dots bool
	// Dashed draws the line with gaps.
	Dashed bool
}

// Chart is a chart. At most MaxSeries series have colours of their own.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// MaxSeries is the number of colours.
const MaxSeries = 6

// colours can be told apart by people who see colours differently (Okabe and Ito, 2008).
var colours = [MaxSeries]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#000000"}

// The size of a chart, and the room for its labels.
const (
	width, height           = 720, 420
	left, right, top, below = 76, 24, 44, 60
)

// at returns where a number lies on the axis, from 0 to 1.
func (a Axis) at(x float64) float64 {
	low, high := a.Min, a.Max
	if a.Log {
		low, high, x = math.Log(low), math.Log(high), math.Log(max(x, a.Min))
	}
	return min(1, max(0, (x-low)/(high-low)))
}

func (a Axis) usable() bool { return a.Max > a.Min && (!a.Log || a.Min > 0) }

// x and y return the place of a number in the picture.
func (c Chart) x(v float64) string { return place(left + c.X.at(v)*(width-left-right)) }
func (c Chart) y(v float64) string { return place(height - below - c.Y.at(v)*(height-top-below)) }

func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// tick writes a number of an axis, and powers of ten beyond the thousands as such.
func tick(v float64) string {
	exponent := math.Round(math.Log10(v))
	if v <= 0 || math.Abs(exponent) < 3 || math.Abs(v/math.Pow(10, exponent)-1) > 1e-9 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return "10" + raised.Replace(strconv.Itoa(int(exponent)))
}

// raised writes an exponent.
var raised = strings.NewReplacer(
	"-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹",
)

// drawn are the numbers of the template.
type drawn struct {
	Title, XLabel, YLabel                        string
	Width, Height, Left, Right, Top, Bottom, Mid int
	XTicks, YTicks                               []mark
	Rows                                         []row
}

// mark is a number at an axis, and spot a place in the picture.
type (
	mark struct{ At, Text string }
	spot struct{ X, Y string }
)

type row struct {
	Name, Colour, Dash, Line string
	Dots                     []spot
	LegendX, LegendY, TextX  int
}

// WriteSVG writes the chart.
func (c Chart) WriteSVG(to io.Writer) error {
	if !c.X.usable() || !c.Y.usable() || len(c.Series) > MaxSeries {
		return fmt.Errorf("the chart %q has an empty axis or more than %d series", c.Title, MaxSeries)
	}
	d := drawn{
		Title: c.Title, XLabel: c.X.Label, YLabel: c.Y.Label, Width: width, Height: height, Left: left,
		Right: width - right, Top: top, Bottom: height - below, Mid: (top + height - below) / 2,
	}
	for _, v := range c.X.Ticks {
		d.XTicks = append(d.XTicks, mark{c.x(v), tick(v)})
	}
	for _, v := range c.Y.Ticks {
		d.YTicks = append(d.YTicks, mark{c.y(v), tick(v)})
	}
	for i, s := range c.Series {
		d.Rows = append(d.Rows, c.row(i, s))
	}
	if err := picture.Execute(to, d); err != nil {
		return fmt.Errorf("draw the chart %q: %w", c.Title, err)
	}
	return nil
}

// row places a series and its line in the legend, which stands at the top right.
func (c Chart) row(i int, s Series) row {
	r := row{
		Name: s.Name, Colour: colours[i], LegendX: width - right - 210, LegendY: top + 16 + 18*i,
		TextX: width - right - 184,
	}
	if s.Dashed {
		r.Dash = "6 4"
	}
	var line strings.Builder
	for k, p := range s.Points {
		if k > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(c.x(p.X) + "," + c.y(p.Y))
		if s.Dots {
			r.Dots = append(r.Dots, spot{c.x(p.X), c.y(p.Y)})
		}
	}
	if !s.Dots {
		r.Line = line.String()
	}
	return r
}

var picture = template.Must(template.New("chart").Parse(`<svg xmlns="http://www.w3.org/2000/svg" ` +
	`viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="12">
<title>{{.Title}}</title>
<rect width="{{.Width}}" height="{{.Height}}" fill="#fff"/>
<text x="{{.Left}}" y="26" font-size="15" font-weight="bold">{{.Title}}</text>
{{range .XTicks}}<line x1="{{.At}}" x2="{{.At}}" y1="{{$.Top}}" y2="{{$.Bottom}}" stroke="#ddd"/>` +
	`<text x="{{.At}}" y="{{$.Bottom}}" dy="18" text-anchor="middle">{{.Text}}</text>
{{end}}{{range .YTicks}}<line x1="{{$.Left}}" x2="{{$.Right}}" y1="{{.At}}" y2="{{.At}}" stroke="#ddd"/>` +
	`<text x="{{$.Left}}" y="{{.At}}" dx="-8" dy="4" text-anchor="end">{{.Text}}</text>
{{end}}<path d="M{{.Left}} {{.Top}}V{{.Bottom}}H{{.Right}}" fill="none" stroke="#333"/>
<text x="{{.Right}}" y="{{.Height}}" dy="-14" text-anchor="end">{{.XLabel}}</text>
<text transform="translate(18 {{.Mid}}) rotate(-90)" text-anchor="middle">{{.YLabel}}</text>
{{range $row := .Rows}}{{if .Line}}<polyline points="{{.Line}}" fill="none" stroke="{{.Colour}}" stroke-width="2"` +
	`{{if .Dash}} stroke-dasharray="{{.Dash}}"{{end}}/>` +
	`<path d="M{{.LegendX}} {{.LegendY}}h20" stroke="{{.Colour}}" stroke-width="2"` +
	`{{if .Dash}} stroke-dasharray="{{.Dash}}"{{end}}/>{{else}}` +
	`<circle cx="{{.LegendX}}" cy="{{.LegendY}}" r="4" fill="{{.Colour}}"/>{{end}}` +
	`<text x="{{.TextX}}" y="{{.LegendY}}" dy="4">{{.Name}}</text>
{{range .Dots}}<circle cx="{{.X}}" cy="{{.Y}}" r="4" fill="{{$row.Colour}}"/>
{{end}}{{end}}</svg>
`))
