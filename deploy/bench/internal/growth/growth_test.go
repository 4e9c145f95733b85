package growth

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// measured is an axis with one judged figure of these values.
func measured(values ...float64) Axis {
	a := Axis{Name: Providers, Title: "idle agents", Judged: 1, Machine: "2 cores",
		Figures: []Figure{{"CPU a request", "µs"}, {"idle CPU", "ms/s"}}}
	for i, v := range values {
		a.Steps = append(a.Steps, Step{Size: 10 * int(math.Pow10(i)), Values: []float64{v, 3}})
	}
	return a
}

func TestAnAxisIsFlatUpToTheBound(t *testing.T) {
	for _, c := range []struct {
		last float64
		want Verdict
	}{{100, Flat}, {125, Flat}, {125.1, NotFlat}, {60, Flat}} {
		// What lies between the first and the last step does not decide.
		if got, why := measured(100, 400, c.last).Judge(); got != c.want {
			t.Errorf("from 100 to %v: got %q (%s), want %q", c.last, got, why, c.want)
		}
	}
}

func TestEachJudgedFigureMustBeFlat(t *testing.T) {
	a := measured(100, 100)
	a.Judged = 2
	a.Steps[1].Values[1] = 6
	if got, why := a.Judge(); got != NotFlat {
		t.Errorf("the second figure doubles: got %q (%s), want %q", got, why, NotFlat)
	}
}

func TestAnAxisWithoutItsEndsIsNotJudged(t *testing.T) {
	noFirst, noLast, negative := measured(100, 100), measured(100, 100), measured(-1, 100)
	noFirst.Steps[0].Values, noLast.Steps[1].Values = nil, nil
	doubtful := measured(100, 100)
	doubtful.Steps[1].Note = "61 of 100 requests a second"
	for name, a := range map[string]Axis{"no first": noFirst, "no last": noLast, "below zero": negative,
		"one step": measured(100), "none": measured(), "a doubtful last": doubtful} {
		if got, _ := a.Judge(); got != NotMeasured {
			t.Errorf("%s: got %q, want %q", name, got, NotMeasured)
		}
	}
}

func TestTheCPUOfAnIdleProductIsNotThatOfItsRequests(t *testing.T) {
	// 2 s of CPU in 10 s, of which 0.05 s a second are idle: 1.5 s for 1,000 requests.
	if got := Beyond(2, 0.05, 10, 1000); math.Abs(got-1500) > 0.001 {
		t.Errorf("µs a request: got %v, want 1500", got)
	}
	if got := Beyond(2, 0.05, 10, 0); got != 0 {
		t.Errorf("without a request: got %v, want 0", got)
	}
}

func TestASmokeRunTakesTheFirstStepsOfEachAxis(t *testing.T) {
	for axis, all := range sizes {
		got, err := Sizes(axis, true)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, all[:2]) {
			t.Errorf("%s: got %v, want %v", axis, got, all[:2])
		}
	}
	if _, err := Sizes("time", false); err == nil {
		t.Error("time is an axis")
	}
}

func TestTheTableShowsRatiosNotesAndTheVerdict(t *testing.T) {
	a := measured(1234, 1300)
	a.Steps = append(a.Steps, Step{Size: 10_000, Note: "no room"})
	var b bytes.Buffer
	if err := Text(&b, []Axis{a}); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"", "  Providers: idle agents", "  2 cores", "",
		"  providers  CPU a request, µs  to the first  idle CPU, ms/s",
		"         10               1234        1.00 ×               3",
		"        100               1300        1.05 ×               3",
		"     10,000                  –             –               –  no room",
		"", "  not measured: the step 10,000 is in doubt: no room", "",
	}, "\n")
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestJSONHasTheVerdictOfEachAxis(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, []Axis{measured(100, 200)}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Axes []struct {
			Axis    string  `json:"axis"`
			Verdict Verdict `json:"verdict"`
		} `json:"axes"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Axes) != 1 {
		t.Fatalf("axes: got %d, want 1", len(got.Axes))
	}
	if got.Axes[0].Verdict != NotFlat {
		t.Errorf("verdict: got %q, want %q", got.Axes[0].Verdict, NotFlat)
	}
}
