package standing_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/evidence/form"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
)

func TestAStateIsReadBackAsItWas(t *testing.T) {
	t.Parallel()
	o := begin(t) // apply reads each form back
	o.run(judgetest.Passing())
	o.run(other())
	o.run(other())
	o.recall(true)
	o.measure(3_000)
	o.penalized()
	form := o.form(o.state)
	if len(form) > standing.MaxBinary {
		t.Errorf("got %d bytes, want at most %d", len(form), standing.MaxBinary)
	}
	t.Logf("%d bytes", len(form))
}

// Evidence of before there were scores of voids has their form.
func TestAStateWithoutVoidsHasTheFormOfBefore(t *testing.T) {
	t.Parallel()
	o := begin(t)
	is(t, "version", o.form(o.state)[1], 1)
	o.judged(o.blank())
	with := o.form(o.state)
	is(t, "version with a void", with[1], 2)
	o.greedy(false)
	is(t, "version once a probe counts", o.form(o.state)[1], 1)
	var s standing.State
	for _, wrong := range [][]byte{append([]byte{with[0], 1}, with[2:]...), with[:len(with)-1]} {
		if err := s.UnmarshalBinary(wrong); !errors.Is(err, form.ErrForm) {
			t.Errorf("got %v, want %v", err, form.ErrForm)
		}
	}
}

func TestAnotherFormOfAStateIsRefused(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.until(ladder.Notice)
	good := o.form(o.state)
	for name, b := range map[string][]byte{
		"empty":            nil,
		"cut":              good[:len(good)-1],
		"longer":           append(bytes.Clone(good), 0),
		"another kind":     append([]byte{1}, good[1:]...),
		"another version":  append([]byte{good[0], 9}, good[2:]...),
		"beyond the bound": make([]byte, standing.MaxBinary+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := standing.New(start)
			before := o.form(s)
			if err := s.UnmarshalBinary(b); !errors.Is(err, form.ErrForm) {
				t.Errorf("got %v, want %v", err, form.ErrForm)
			}
			if !bytes.Equal(o.form(s), before) {
				t.Error("a refused form changed the state")
			}
		})
	}
}

func TestAPenaltyWithoutItsLevelIsRefused(t *testing.T) {
	t.Parallel()
	o := begin(t)
	o.penalized()
	s := o.state
	s.Level = ladder.Notice
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	if err := s.UnmarshalBinary(b); !errors.Is(err, form.ErrForm) {
		t.Errorf("got %v, want %v", err, form.ErrForm)
	}
}

func FuzzAFormHasOneState(f *testing.F) {
	good, err := standing.New(start).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		var s standing.State
		if s.UnmarshalBinary(b) != nil {
			return
		}
		again, err := s.MarshalBinary()
		if err != nil {
			t.Fatalf("a state that was read cannot be written: %v", err)
		}
		if !bytes.Equal(again, b) {
			t.Error("a state has two forms")
		}
	})
}

// FuzzApplyIsTotal plays events in any order: each moves the state to one with a form, or
// is refused and leaves it.
func FuzzApplyIsTotal(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Add(bytes.Repeat([]byte{1, 0x61}, 60))
	f.Add(bytes.Repeat([]byte{14, 0x2e}, 60))
	f.Add(append(bytes.Repeat([]byte{0x21}, 80), 13, 14, 10, 11, 12, 7, 7, 8, 8, 8, 9))
	f.Fuzz(func(t *testing.T, script []byte) {
		o := begin(t)
		for _, b := range script[:min(len(script), 200)] {
			o.wait(time.Duration(b>>4) * 20 * time.Minute)
			if b>>4 == 15 {
				o.wait(-48 * time.Hour)
			}
			e := o.event(b & 15)
			next, out, err := o.try(e)
			form := o.form(next)
			if err != nil {
				if !bytes.Equal(form, o.form(o.state)) {
					t.Fatalf("a refused %s moved the state", e.Name())
				}
				continue
			}
			var read standing.State
			if err := read.UnmarshalBinary(form); err != nil {
				t.Fatalf("after %s: %v", e.Name(), err)
			}
			if len(out.Verdicts) > 2 {
				t.Fatalf("%s brought %d verdicts", e.Name(), len(out.Verdicts))
			}
			if p := out.Published; !(p.Trust > 0 && p.Trust <= 1) {
				t.Fatalf("trust is %v", p.Trust)
			}
			o.keep(next, out)
		}
	})
}

// event is one of sixteen events.
func (o *offer) event(b byte) standing.Event {
	var of probe.VerdictID
	if len(o.state.Open) > 0 {
		of = o.state.Open[0].Verdict
	}
	judged := func(exceeded bool, host string) standing.Event {
		r := judgetest.Greedy(o.t, judgetest.Say{N: o.n, Exceeded: exceeded, Host: host})
		return standing.Event{Judged: &r}
	}
	switch b {
	case 0:
		return judged(false, "reference-2")
	case 1:
		return judged(true, "reference-1")
	case 2:
		return judged(true, "reference-2")
	case 3:
		r := judgetest.Recall(o.t, judgetest.Say{N: o.n, Exceeded: true})
		return standing.Event{Judged: &r}
	case 4:
		r := judgetest.Measured(o.t, judgetest.Say{N: o.n}, probe.Measure, []int{100, 1_000, 2_000, 4_000}, 2_500)
		return standing.Event{Judged: &r}
	case 5:
		r := judgetest.Fingerprint(o.t, judgetest.Say{N: o.n, Exceeded: o.n%2 == 0})
		return standing.Event{Judged: &r}
	case 6:
		r := o.refused(1 + o.n)
		return standing.Event{Judged: &r}
	case 7:
		return standing.Event{Run: &standing.RunJudged{Facts: judgetest.Passing()}}
	case 8:
		return standing.Event{Run: &standing.RunJudged{Facts: other()}}
	case 9:
		return standing.Event{Run: &standing.RunJudged{Facts: battery.Facts{Disturbed: true}}}
	case 10:
		return standing.Event{Penalty: &standing.PenaltyMoved{Verdict: of, Final: standing.Executed}}
	case 11:
		return standing.Event{Penalty: &standing.PenaltyMoved{Verdict: of, Final: standing.Reversed}}
	case 12:
		return standing.Event{Operator: &standing.Approval{Verdict: of, By: "operator", Refused: o.n%2 == 0}}
	case 13:
		return standing.Event{Voided: &standing.Voiding{By: "operator", Since: o.now.Add(-time.Duration(o.n) * time.Hour)}}
	case 14:
		r := judgetest.Silent(o.t, judgetest.Say{N: o.n})
		if o.n%2 == 0 {
			r = o.blank()
		}
		return standing.Event{Judged: &r}
	default:
		return standing.Event{Ticked: &standing.Tick{}}
	}
}
