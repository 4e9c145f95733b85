package gates

import (
	"testing"

	"inference-bench/internal/figures"
	"inference-bench/internal/loadgen"
	"inference-bench/internal/record"
)

func load(scenario, target string, r loadgen.Result) record.Record {
	r.Requests = 1
	return record.Record{Scenario: scenario, Target: target, Result: &r}
}

func judge(t *testing.T, set record.Set, gate Gate) Verdict {
	t.Helper()
	v := Judge(figures.Work(set, "direct", "nginx"), []Gate{gate})
	if len(v) != 1 {
		t.Fatalf("verdicts: got %d, want 1", len(v))
	}
	return v[0]
}

func TestARatioIsHeldAgainstEachLevel(t *testing.T) {
	set := record.Set{load("chat-16", "nginx", loadgen.Result{CPUPerReq: 10}), load("chat-16", figures.Standalone,
		loadgen.Result{CPUPerReq: 150})}
	v := judge(t, set, Gate{Figure: "cpu_small", Target: figures.Standalone, Gate: limit(20), Aim: limit(15),
		Stretch: limit(8)})
	switch {
	case v.Measured != 15:
		t.Errorf("15 times: v.Measured: got %v, want 15", v.Measured)
	case !v.Gate.Met:
		t.Error("15 times: v.Gate.Met: got false, want true")
	case !v.Aim.Met:
		t.Error("15 times: v.Aim.Met: got false, want true")
	case v.Stretch.Met:
		t.Error("15 times: v.Stretch.Met: got true, want false")
	}
}

func TestLatencyIsHeldNetOfFlushes(t *testing.T) {
	set := record.Set{
		load("chat-1", "direct", loadgen.Result{P50: 100}), load("chat-1", figures.Standalone, loadgen.Result{P50: 1100}),
		{Target: record.Machine, Measure: figures.SyncMeasure, Value: 200},
	}
	if v := judge(t, set, Gate{Figure: "added_p50", Target: figures.Standalone, Gate: limit(600),
		Aim: limit(599)}); !v.Gate.Met {
		t.Error("v.Gate.Met: got false, want true")
	} else if v.Aim.Met {
		t.Error("v.Aim.Met: got true, want false")
	}
}

func TestALowerBoundIsMetFromAbove(t *testing.T) {
	set := record.Set{{Target: figures.Hub, Measure: "Final/writers=512 finals/s", Value: 20_000}}
	gate := Gate{Figure: "journal", Target: figures.Hub, AtLeast: true, Gate: limit(20_000), Aim: limit(20_001)}
	if v := judge(t, set, gate); !v.Gate.Met {
		t.Error("v.Gate.Met: got false, want true")
	} else if v.Aim.Met {
		t.Error("v.Aim.Met: got true, want false")
	}
}

func TestTheSplitFloorBoundsTheFleet(t *testing.T) {
	set := record.Set{
		load("chat-16", "nginx", loadgen.Result{CPUPerReq: 10}),
		load("chat-16", figures.Split, loadgen.Result{CPUPerReq: 200}),
		load("chat-16", figures.Fleet, loadgen.Result{CPUPerReq: 400, CPU: 4, CPUBy: map[string]float64{"postgres": 1}}),
	}
	v := judge(t, set, Gate{Figure: "cpu_small", Target: figures.Fleet, Gate: split("cpu_small", "ledger_small")})
	switch {
	case !v.Absolute:
		t.Error("v.Absolute: got false, want true")
	case v.Measured != 400:
		t.Errorf("v.Measured: got %v, want 400", v.Measured)
	case v.Gate.Bound != 1.5*200+100:
		t.Errorf("v.Gate.Bound: got %v, want %v", v.Gate.Bound, 1.5*200+100)
	case !v.Gate.Met:
		t.Error("v.Gate.Met: got false, want true")
	}
}

func TestABoundThatRefersToNothingIsNoVerdict(t *testing.T) {
	set := record.Set{{Target: figures.Ledger, Measure: "Settles/accounts=32/batch=200 settles/s", Value: 9}}
	gate := Gate{Figure: "settles", Target: figures.Ledger, AtLeast: true,
		Gate: &Bound{Limit: 2, Times: &Ref{"rate", figures.Standalone}}, Aim: limit(10)}
	v := judge(t, set, gate)
	switch {
	case v.Gate != nil:
		t.Errorf("v.Gate: got %+v, want nil", v.Gate)
	case v.Aim == nil:
		t.Error("v.Aim: got nil, want a value")
	case v.Aim.Met:
		t.Error("v.Aim.Met: got true, want false")
	}
	if missed := Missed([]Verdict{v}); len(missed) != 0 {
		t.Errorf("missed %v of an unknown gate: got %d, want 0", missed, len(missed))
	}
}

func TestAboveALoadOfThreeNoFigureOfTimeIsJudged(t *testing.T) {
	for _, c := range []struct {
		load     float64
		unjudged bool
		missed   int
	}{{3, false, 2}, {3.1, true, 1}} {
		set := record.Set{
			load("chat-16", "nginx", loadgen.Result{CPUPerReq: 10}),
			load("chat-16", figures.Standalone, loadgen.Result{CPUPerReq: 150, Errors: 1}),
			{Target: record.Machine, Measure: figures.LoadMeasure, Value: c.load},
		}
		verdicts := Judge(figures.Work(set, "direct", "nginx"), []Gate{
			{Figure: "cpu_small", Target: figures.Standalone, Gate: limit(14), Stretch: limit(1)},
			{Figure: "failures", Target: figures.Standalone, Gate: limit(0)},
		})
		if got := verdicts[0].Unjudged; got != c.unjudged {
			t.Errorf("CPU at a load of %v: not judged: got %v, want %v", c.load, got, c.unjudged)
		}
		if verdicts[1].Unjudged {
			t.Errorf("failures at a load of %v: not judged: got true, want false", c.load)
		}
		if got := len(Missed(verdicts)); got != c.missed {
			t.Errorf("missed at a load of %v: got %d, want %d", c.load, got, c.missed)
		}
	}
}

func TestALevelIsNotMetWhereNothingIsJudged(t *testing.T) {
	set := record.Set{
		load("chat-16", "nginx", loadgen.Result{CPUPerReq: 10}),
		load("chat-16", figures.Standalone, loadgen.Result{CPUPerReq: 50}),
		{Target: record.Machine, Measure: figures.LoadMeasure, Value: 5},
	}
	v := judge(t, set, Gate{Figure: "cpu_small", Target: figures.Standalone, Gate: limit(20)})
	if v.Gate.Met {
		t.Error("gate met: got true, want false")
	}
	if v.Gate.Bound != 20 {
		t.Errorf("bound: got %v, want 20", v.Gate.Bound)
	}
}

func TestATargetThatWasNotStartedHasNoVerdict(t *testing.T) {
	set := record.Set{load("chat-16", "nginx", loadgen.Result{CPUPerReq: 10}),
		load("chat-16", figures.Standalone, loadgen.Result{CPUPerReq: 50})}
	for _, v := range Judge(figures.Work(set, "direct", "nginx"), All()) {
		if v.Target != figures.Standalone {
			t.Errorf("verdict on %s: got %+v, want none", v.Target, v)
		}
	}
	set = append(set, load("chat-16", figures.Grouped, loadgen.Result{CPUPerReq: 350}))
	found := false
	for _, v := range Judge(figures.Work(set, "direct", "nginx"), All()) {
		found = found || v.Target == figures.Grouped && v.Aim.Met
	}
	if !found {
		t.Error("grouped services at 35 times nginx: got no target that is met, want 40 times")
	}
}

func TestWhatIsNotMeasuredIsNotJudged(t *testing.T) {
	if v := Judge(figures.Work(nil, "direct", "nginx"), All()); len(v) != 0 {
		t.Errorf("verdicts on nothing: got %d, want 0", len(v))
	}
}

func TestEveryGateIsOfAFigureAndItsLevelsGetHarder(t *testing.T) {
	table := figures.Work(nil, "direct", "nginx")
	for _, g := range All() {
		if _, ok := table.Row(g.Figure); !ok {
			t.Errorf("there is no figure %q", g.Figure)
		}
		for _, pair := range [][2]*Bound{{g.Gate, g.Aim}, {g.Aim, g.Stretch}} {
			easy, hard := pair[0], pair[1]
			if easy == nil || hard == nil || easy.Times != nil || hard.Times != nil {
				continue
			}
			if g.AtLeast && hard.Limit < easy.Limit {
				t.Errorf("%s of %s: hard.Limit: got %v, want at least %v, where g.AtLeast", g.Figure, g.Target, hard.Limit,
					easy.Limit)
			} else if !g.AtLeast && hard.Limit > easy.Limit {
				t.Errorf("%s of %s: hard.Limit: got %v, want at most %v, where !g.AtLeast", g.Figure, g.Target, hard.Limit,
					easy.Limit)
			}
		}
		for _, b := range []*Bound{g.Gate, g.Aim, g.Stretch} {
			if b == nil {
				continue
			}
			for _, ref := range []*Ref{b.Times, b.Plus} {
				if ref == nil {
					continue
				}
				if _, ok := table.Row(ref.Figure); !ok {
					t.Errorf("%s refers to %q, which is no figure", g.Figure, ref.Figure)
				}
			}
		}
	}
}
