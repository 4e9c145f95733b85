package summary

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"inference-bench/internal/figures"
	"inference-bench/internal/gates"
	"inference-bench/internal/loadgen"
	"inference-bench/internal/record"
)

// setup is a run in which the small request meets its target and misses its
// stretch, and the journal misses its gate.
func setup() Summary {
	load := func(scenario, target string, r loadgen.Result) record.Record {
		r.Requests = 10
		return record.Record{Scenario: scenario, Target: target, Result: &r}
	}
	set := record.Set{
		load("chat-16", "nginx", loadgen.Result{CPUPerReq: 15}),
		load("chat-16", "goproxy", loadgen.Result{CPUPerReq: 60}),
		load("chat-16", figures.Split, loadgen.Result{CPUPerReq: 250}),
		load("chat-16", figures.Standalone, loadgen.Result{CPUPerReq: 195, ReqPerSec: 3000}),
		load("chat-16", figures.Fleet, loadgen.Result{CPUPerReq: 400, CPU: 1}),
		load("chat-1", "direct", loadgen.Result{P50: 100}),
		load("chat-1", figures.Standalone, loadgen.Result{P50: 1000}),
		{Target: figures.Hub, Measure: "Final/writers=512 finals/s", Value: 12_345},
		{Target: record.Machine, Measure: figures.SyncMeasure, Value: 250},
	}
	table := figures.Work(set, "direct", "nginx")
	return Summary{Table: table, Verdicts: gates.Judge(table, gates.All()), Machine: "2 cores"}
}

func TestNumbersShowThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 7: "7", 1.234: "1.23", 9.999: "10.0", 12.34: "12.3", 99.96: "100",
		123.4: "123", 12345: "12,345", 1234567.8: "1,234,568", -1234: "-1,234", 1000: "1,000"} {
		if got := number(x); got != want {
			t.Errorf("number(%v): got %q, want %q", x, got, want)
		}
	}
}

func TestTheTerminalNamesWhatIsMissed(t *testing.T) {
	var out bytes.Buffer
	if err := setup().Terminal(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"≤ 20 × ok", "≤ 15 × ok", "≤ 12 × MISSED", "≥ 20,000/s MISSED", "2 of 6 gates missed",
		"400 net"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("colours where none were asked for: got %q, want it without %q", out.String(), "\x1b")
	}
}

func TestColoursOnlyWhenAskedFor(t *testing.T) {
	var out bytes.Buffer
	if err := setup().Terminal(&out, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\x1b[31m") {
		t.Errorf("red in the colours: got %q, want %q in it", out.String(), "\x1b[31m")
	}
}

func TestTheDocumentSaysTheBestLevelReached(t *testing.T) {
	text := setup().Markdown()
	for _, want := range []string{
		"| | nginx | Go proxy | standalone | fleet |",
		"| 15.0 | 60 · 4 × | 195 · **13 ×** | 400 · 26.7 × | ≤ 20 × · ≤ 15 × · ≤ 12 × | target |",
		"900 · **400**", "| 12,345 |  | ≥ 20,000/s · ≥ 60,000/s | **missed** |",
		"16 connections 400 µs (≤ 375 µs)", "16 connections 26.7 × (target ≤ 60 ×)",
	} {
		if !strings.Contains(strings.ReplaceAll(text, "| 15 |", "| 15.0 |"), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// inRounds is a run of three rounds in which nginx moved from 13 to 19 µs, and
// others made so much load.
func inRounds(load float64) Summary {
	set := record.Set{{Target: record.Machine, Measure: figures.LoadMeasure, Value: load}}
	for round, cpu := range []float64{15, 13, 19} {
		for target, times := range map[string]float64{"nginx": 1, figures.Standalone: 10 + float64(round)} {
			set = append(set, record.Record{Scenario: "chat-16", Target: target, Round: round,
				Result: &loadgen.Result{Requests: 1, CPUPerReq: cpu * times, Errors: 1}})
		}
	}
	table := figures.Work(set, "direct", "nginx")
	table.Behind = []string{"fleet does not keep up with 900/s: 250/s"}
	return Summary{Table: table, Verdicts: gates.Judge(table, gates.All()), Machine: "2 cores", Picture: "a/b.svg"}
}

func terminalOf(t *testing.T, s Summary) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Terminal(&out, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, want := range parts {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestTheSpreadOfNginxAndOfTheRatiosIsPrinted(t *testing.T) {
	holds(t, terminalOf(t, inRounds(0)), "15 µs (13 to 19)", "(11 ×, 10 to 12)")
	holds(t, inRounds(0).Markdown(), "| 15 (13–19) |", "**11 ×**")
}

func TestAboveALoadOfThreeNothingIsMetOrMissed(t *testing.T) {
	busy := inRounds(4.25)
	text := terminalOf(t, busy)
	holds(t, text, "≤ 12 ×         not judged: load 4.25", "load 4.25, above 3", "≤ 0 MISSED", "1 of 2 gates missed")
	document := busy.Markdown()
	holds(t, document, "| ≤ 20 × · ≤ 15 × · ≤ 12 × | not judged: load 4.25 |",
		"Figures of time are **not judged: load 4.25**")
	if strings.Contains(inRounds(3).Markdown(), "not judged") {
		t.Errorf("at a load of 3: got\n%s\nwant all judged", inRounds(3).Markdown())
	}
}

func TestTheDocumentShowsThePlotAndWhoFellBehind(t *testing.T) {
	holds(t, inRounds(0).Markdown(), "](a/b.svg)\n", "In the open loop fleet does not keep up with 900/s: 250/s.")
	if text := setup().Markdown(); strings.Contains(text, "![") {
		t.Errorf("without a plot: got\n%s\nwant no picture", text)
	}
}

func TestEveryRowOfTheDocumentHasAllColumns(t *testing.T) {
	table, _, _ := strings.Cut(setup().Markdown(), "\n\n")
	lines := strings.Split(table, "\n")
	for _, line := range lines {
		if strings.Count(line, "|") != strings.Count(lines[0], "|") {
			t.Errorf("columns of %q beside %q: got %d, want %d", line, lines[0], strings.Count(line, "|"),
				strings.Count(lines[0], "|"))
		}
	}
}

func TestTheTableIsReplacedBetweenItsMarks(t *testing.T) {
	got, err := Replace("# A\n<!-- bench -->\nold\n<!-- /bench -->\ntail\n", "| new |\n")
	if want := "# A\n<!-- bench -->\n| new |\n<!-- /bench -->\ntail\n"; err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got != want {
		t.Errorf("Replace(…): got %q, want %q", got, want)
	}
	if again, err := Replace(got, "| new |\n"); err != nil {
		t.Errorf("a second time: got the error %v, want none", err)
	} else if again != got {
		t.Errorf("a second time: again: got %q, want %q", again, got)
	}
}

func TestADocumentWithoutItsMarksIsLeftAlone(t *testing.T) {
	for _, bad := range []string{"", "<!-- bench -->", "<!-- /bench --><!-- bench -->",
		"<!-- bench --><!-- /bench --><!-- bench --><!-- /bench -->"} {
		if _, err := Replace(bad, "x"); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestJSONHasFiguresAndGates(t *testing.T) {
	var out bytes.Buffer
	if err := setup().JSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Figures []struct {
			ID      string
			Targets map[string]struct{ Value, Ratio float64 }
		}
		Gates []struct {
			Figure string
			Gate   struct{ Met bool }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	switch {
	case len(got.Gates) == 0:
		t.Errorf("len(got.Gates): got 0, want at least 1, with %s", out.String())
	case got.Figures[0].ID != "cpu_small":
		t.Errorf(`Figures[0].ID: got %q, want "cpu_small", with %s`, got.Figures[0].ID, out.String())
	case got.Figures[0].Targets[figures.Standalone].Ratio != 13:
		t.Errorf("Figures[0].Targets[figures.Standalone].Ratio: got %v, want 13, with %s",
			got.Figures[0].Targets[figures.Standalone].Ratio, out.String())
	}
}
