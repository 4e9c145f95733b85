package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/lab/plot"
)

func chart() plot.Chart {
	return plot.Chart{
		Title: "Days & <nights>",
		X:     plot.Axis{Label: "share", Min: .01, Max: 1, Log: true, Ticks: []float64{.01, .1, 1}},
		Y:     plot.Axis{Label: "days", Max: 1e6, Ticks: []float64{0, 5e5, 1e6}},
		Series: []plot.Series{
			{Name: "line", Points: []plot.Point{{X: .1, Y: 5e5}, {X: 1, Y: 0}}, Dashed: true},
			{Name: "dots", Points: []plot.Point{{X: .01, Y: 1e6}, {X: 5, Y: -3}}, Dots: true},
		},
	}
}

func draw(t *testing.T, c plot.Chart) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAChartIsWellFormed(t *testing.T) {
	t.Parallel()
	d := xml.NewDecoder(strings.NewReader(draw(t, chart())))
	var text strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if chars, ok := token.(xml.CharData); ok {
			text.Write(chars)
		}
	}
	for _, want := range []string{"Days & <nights>", "share", "days", "line", "dots", "0.01", "10⁶", "500000"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got the texts %q, want %q among them", text.String(), want)
		}
	}
}

func TestPointsLieWhereTheAxesSay(t *testing.T) {
	t.Parallel()
	svg := draw(t, chart())
	// The picture is 720 × 420; the axes run from 76 to 696 and from 360 up to 44.
	for name, want := range map[string]string{
		"half of a logarithmic axis, half of the other": `points="386.0,202.0 696.0,360.0"`,
		"the corner":           `cx="76.0" cy="44.0"`,
		"outside, at the ends": `cx="696.0" cy="360.0"`,
		"a dashed line":        `stroke-dasharray="6 4"`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s: got no %s in %s", name, want, svg)
		}
	}
}

func TestAChartIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	if first := draw(t, chart()); draw(t, chart()) != first {
		t.Error("the same chart gave other bytes")
	}
}

func TestImpossibleChartsAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*plot.Chart){
		"empty axis":       func(c *plot.Chart) { c.X.Max = c.X.Min },
		"logarithm of 0":   func(c *plot.Chart) { c.X.Min = 0 },
		"too many series":  func(c *plot.Chart) { c.Series = make([]plot.Series, plot.MaxSeries+1) },
		"axis upside down": func(c *plot.Chart) { c.Y.Max = -1 },
	} {
		c := chart()
		spoil(&c)
		if err := c.WriteSVG(io.Discard); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}
