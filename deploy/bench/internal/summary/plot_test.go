package summary

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"inference-bench/internal/figures"
)

func TestTheSameFiguresMakeTheSamePlot(t *testing.T) {
	first := inRounds(0).Plot()
	for range 20 { // maps are walked in another order each time
		if again := inRounds(0).Plot(); !bytes.Equal(first, again) {
			t.Fatalf("got\n%s\nwant\n%s", again, first)
		}
	}
}

func TestThePlotIsAnImageThatNeedsNothingElse(t *testing.T) {
	s := setup()
	s.Machine = `2 cores <"of" a & b>`
	plot := s.Plot()
	for d := xml.NewDecoder(bytes.NewReader(plot)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
	text := strings.Replace(string(plot), "http://www.w3.org/2000/svg", "", 1)
	for _, never := range []string{"<script", "http:", "https:", "@import", "url(", "href", "font-face"} {
		if strings.Contains(text, never) {
			t.Errorf("the plot holds %q, want none", never)
		}
	}
	holds(t, text, "prefers-color-scheme:dark", "13 ×", "26.7 ×", ">Go proxy<", ">standalone<", ">fleet<", "2 cores &lt;")
}

func TestThePlotMarksTheBoundsOfTheProduct(t *testing.T) {
	text := string(setup().Plot())
	for _, name := range levelNames {
		// One in the figure, one in the legend.
		if got := strings.Count(text, `<line class="`+name+`"`); got != 2 {
			t.Errorf("marks of %s: got %d, want 2", name, got)
		}
	}
}

func TestTheScaleHoldsAllThatIsShown(t *testing.T) {
	blocks := setup().blocks()
	sc := scaleOf(blocks)
	if got := sc.ticks[len(sc.ticks)-1]; got != 50 {
		t.Errorf("end of the scale above 26.7: got %v, want 50", got)
	}
	if got := sc.x(1); got != plotLeft {
		t.Errorf("1 stands at: got %v, want %v", got, plotLeft)
	}
	if got := sc.x(50); got != plotRight {
		t.Errorf("50 stands at: got %v, want %v", got, plotRight)
	}
	if got := sc.x(0.5); got != plotLeft {
		t.Errorf("a ratio below 1 stands at: got %v, want %v", got, plotLeft)
	}
	if sc.x(13) >= sc.x(26.7) {
		t.Errorf("13 stands at %v and 26.7 at %v: want the smaller before the larger", sc.x(13), sc.x(26.7))
	}
}

func TestAPlotOfABusyMachineSaysSo(t *testing.T) {
	holds(t, string(inRounds(4.25).Plot()), "not judged: load 4.25")
}

func TestWithoutRatiosThereIsNoPlot(t *testing.T) {
	if got := (Summary{Table: figures.Work(nil, "direct", "nginx")}).Plot(); got != nil {
		t.Errorf("got %q, want none", got)
	}
}
