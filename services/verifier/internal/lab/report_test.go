package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/lab/plot"
)

func TestAGateIsMetWithinItsTolerance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gate Gate
		want bool
	}{
		"within":           {within("x", .5, .58, .08), true},
		"above":            {within("x", .5, .59, .08), false},
		"below":            {within("x", .5, .41, .08), false},
		"at most":          {notAbove("x", 3, 3, 0), true},
		"above a limit":    {notAbove("x", 3, 3.1, 0), false},
		"within its slack": {notAbove("x", 3, 3.1, .1), true},
		"at least":         {notBelow("x", 3, 3, 0), true},
		"below a limit":    {notBelow("x", 3, 2.9, 0), false},
		"zero of zero":     {notAbove("x", 0, 0, 0), true},
		"one of zero":      {notAbove("x", 0, 1, 0), false},
	} {
		if c.gate.Met != c.want {
			t.Errorf("%s: got met %v, want %v", name, c.gate.Met, c.want)
		}
	}
}

func TestFiguresAreWrittenShortly(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{
		0: "0", 5: "5", 1_000: "1,000", 100_000: "100,000", .05: "0.05", 3.4e-7: "3.4e-07", 8.625: "8.62",
		1e6: "1e+06", 1_004: "1,004",
	} {
		if got := number(x); got != want {
			t.Errorf("%v: got %q, want %q", x, got, want)
		}
	}
}

// report has a gate that is met, one that is missed, and one whose miss is known.
func report() Report {
	r := Report{Took: 90 * time.Second, CPU: 150 * time.Second}
	r.add(within("a long name of a gate", 1, 1, .1))
	r.add(within("missed", 1, 2, .1))
	r.add(within("other training: B exceeds", .46, 1, .08))
	r.excuse()
	r.chart("windows.svg", plot.Chart{Title: "Windows"})
	return r
}

func TestOnlyAGateWithoutAReasonFails(t *testing.T) {
	t.Parallel()
	r := report()
	if !r.Failed() {
		t.Error("with a missed gate: got a report that did not fail")
	}
	r.Gates = slices.Delete(r.Gates, 1, 2)
	if r.Failed() {
		t.Error("with a known miss: got a report that failed")
	}
}

// A cheat that the laboratory sees better than designed is no excuse for seeing it less.
func TestAReasonHoldsAsFarAsItIsKnown(t *testing.T) {
	t.Parallel()
	for measured, failed := range map[float64]bool{1: false, .6: false, .3: true, .46: false} {
		var r Report
		r.add(within("other training: B exceeds", .46, measured, .08))
		r.excuse()
		if got := r.Failed(); got != failed {
			t.Errorf("%v: got failed %v, want %v", measured, got, failed)
		}
	}
}

func TestTheTableAlignsAndEndsWithASummary(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := report().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	at := strings.Index(lines[0], "designed")
	for _, line := range lines[1:4] {
		if got := strings.TrimLeft(line[at-1:], " "); len(got) != len(line)-at {
			t.Errorf("got the line %q, want its second column under that of %q", line, lines[0])
		}
	}
	for _, want := range []string{
		"MISSED", "missed (known)", seenBetter,
		"1 gates met, 1 missed for a known reason, 1 missed; short run, 90 s, 150 CPU s.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s, want %q in it", b.String(), want)
		}
	}
}

func TestThePageShowsTheChartsThatThereAre(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := report().WriteMarkdown(&b, time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2026-11-27", "| missed | 1 | 2 | ± 0.1 | MISSED |", "![Windows](windows.svg)", seenBetter,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s, want %q in it", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "auc.svg") {
		t.Error("a chart that there is not: got it on the page")
	}
}

func TestClassifiersMustNotFindProbes(t *testing.T) {
	t.Parallel()
	for text, failed := range map[string]bool{
		`[{"classifier":"trees","probes":0.53,"naive":0.97,"samples":2100}]`: false,
		`[{"classifier":"trees","probes":0.56,"naive":0.97,"samples":2100}]`: true,
		`[{"classifier":"trees","probes":0.53,"naive":0.89,"samples":2100}]`: true,
		`[{"classifier":"trees","probes":0.53,"naive":0.97,"samples":1999}]`: true,
	} {
		var r Report
		if err := r.AddAUC([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := r.Failed(); got != failed {
			t.Errorf("%s: got failed %v, want %v", text, got, failed)
		}
		if _, ok := r.Charts["auc.svg"]; !ok {
			t.Errorf("%s: got no chart, want one", text)
		}
	}
	for _, text := range []string{"", "[]", "{}", `[{"probes":2}]`, "[" + strings.Repeat("{},", 16) + "{}]"} {
		if err := new(Report).AddAUC([]byte(text)); !errors.Is(err, ErrAUC) {
			t.Errorf("%q: got the error %v, want %v", text, err, ErrAUC)
		}
	}
}

func TestWorkersKeepTheOrder(t *testing.T) {
	t.Parallel()
	square := func(_ context.Context, i int) (int, error) { return i * i, nil }
	got, err := spread(t.Context(), Options{Workers: 4}, 100, square)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != i*i {
			t.Fatalf("result %d: got %d, want %d", i, x, i*i)
		}
	}
}

func TestWorkersEndWithAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := spread(t.Context(), Options{Workers: 2}, 1_000, func(_ context.Context, i int) (int, error) {
		if i == 7 {
			return 0, broken
		}
		return i, nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("got the error %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = spread(ctx, Options{Workers: 2}, 10, func(context.Context, int) (int, error) { return 0, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got the error %v, want %v", err, context.Canceled)
	}
}
