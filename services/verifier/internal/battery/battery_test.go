package battery_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/calibration"
)

// speed is five answers at a rate, and 20 times to first token.
func speed(perSecond float64, first time.Duration) battery.Speed {
	took := time.Duration(battery.SpeedTokens / perSecond * float64(time.Second))
	return battery.Speed{
		Answers:     slices.Repeat([]battery.Timing{{Tokens: battery.SpeedTokens, Took: took}}, battery.SpeedAnswers),
		FirstTokens: slices.Repeat([]time.Duration{first}, 20),
	}
}

// questions are 40 different ones, of which the first few exceed.
func questions(name string, exceeding int) []battery.Question {
	all := make([]battery.Question, battery.Questions)
	for i := range all {
		all[i] = battery.Question{ID: fmt.Sprint(name, i), Exceeded: i < exceeding}
	}
	return all
}

func first(exceeding int) []battery.Question { return questions("first ", exceeding) }

func again(exceeding int) []battery.Question { return questions("again ", exceeding) }

func good() battery.Facts {
	return battery.Facts{
		First: speed(64, time.Second), Asked: 100, Answered: 100, StatedTokens: 32_000, MeasuredTokens: 32_000,
		Questions: first(0),
	}
}

// spoilt are runs that differ from a good one in one thing, and what they come to.
type spoilt map[string]struct {
	spoil func(*facts)
	want  battery.Outcome
	found battery.Finding
}

type facts = battery.Facts

var slow, quick = speed(4, time.Second), speed(64, time.Second)

var spoiltRuns = spoilt{
	"nothing": {func(*facts) {}, battery.Pass, ""},
	"few, quick": {func(x *facts) {
		x.Quick, x.Questions = true, nil
		x.First = battery.Speed{Answers: slow.Answers[:1], FirstTokens: slow.FirstTokens[:1]}
	}, battery.Pass, ""},
	"one of few is unanswered, quick": {func(x *facts) { x.Quick, x.Asked, x.Answered = true, 5, 4 },
		battery.Void, battery.Unanswered},
	"a small window, quick": {func(x *facts) { x.Quick, x.MeasuredTokens = true, 1 },
		battery.Fail, battery.SmallWindow},
	"few":         {func(x *facts) { x.Questions = nil }, battery.Void, battery.TooLittle},
	"disturbed":   {func(x *facts) { x.Disturbed, x.Answered = true, 0 }, battery.Void, battery.Disturbed},
	"98 answered": {func(x *facts) { x.Answered = 98 }, battery.Pass, ""},
	"97 answered": {func(x *facts) { x.Answered = 97 }, battery.Fail, battery.Unanswered},
	"4 lost":      {func(x *facts) { x.Answered, x.Offline = 96, 4 }, battery.Void, battery.Unanswered},
	"2 lost":      {func(x *facts) { x.Answered, x.Offline = 98, 2 }, battery.Pass, ""},
	"some lost, some unanswered": {func(x *facts) { x.Answered, x.Offline = 90, 1 },
		battery.Void, battery.Unanswered},
	"more lost than unanswered": {func(x *facts) { x.Answered, x.Offline = 98, 3 },
		battery.Void, battery.ImpossibleRun},
	"lost below 0": {func(x *facts) { x.Offline = -1 }, battery.Void, battery.ImpossibleRun},
	"window 95%":   {func(x *facts) { x.MeasuredTokens = 30_400 }, battery.Pass, ""},
	"window below": {func(x *facts) { x.MeasuredTokens = 30_399 }, battery.Fail, battery.SmallWindow},
	"no window":    {func(x *facts) { x.MeasuredTokens = 0 }, battery.Void, battery.TooLittle},
	"2 exceed":     {func(x *facts) { x.Questions = first(2) }, battery.Pass, ""},
	"3 exceed":     {func(x *facts) { x.Questions = first(3) }, battery.AskAgain, battery.OtherAnswers},
	"3 exceed, 2":  {func(x *facts) { x.Questions, x.Again = first(3), again(2) }, battery.Pass, ""},
	"3 exceed, 3":  {func(x *facts) { x.Questions, x.Again = first(3), again(3) }, battery.Fail, battery.OtherAnswers},
	"asked twice":  {func(x *facts) { x.Questions[7].ID = x.Questions[8].ID }, battery.Void, battery.RepeatedQuestion},
	"asked later":  {func(x *facts) { x.Questions, x.Again = first(3), first(0) }, battery.Void, battery.RepeatedQuestion},
	"no id":        {func(x *facts) { x.Questions[7].ID = "" }, battery.Void, battery.RepeatedQuestion},
	"30 questions": {func(x *facts) { x.Questions = x.Questions[:30] }, battery.Pass, ""},
	"29 questions": {func(x *facts) { x.Questions = x.Questions[:29] }, battery.Void, battery.TooLittle},
	"29 later": {func(x *facts) { x.Questions, x.Again = first(3), again(0)[:29] },
		battery.Void, battery.TooLittle},
	"uncalibrated": {func(x *facts) { x.Uncalibrated, x.Questions = true, first(40) },
		battery.Pass, battery.Uncalibrated},
	"uncalibrated, none": {func(x *facts) { x.Uncalibrated, x.Questions = true, nil }, battery.Pass, battery.Uncalibrated},
	"5 tok/s":            {func(x *facts) { x.First = speed(5, 0) }, battery.Pass, ""},
	"half the median":    {func(x *facts) { x.ClassMedian = 128 }, battery.Pass, ""},
	"below half":         {func(x *facts) { x.ClassMedian = 129 }, battery.TimeAgain, battery.SlowTokens},
	"slow":               {func(x *facts) { x.First = slow }, battery.TimeAgain, battery.SlowTokens},
	"slow, quick":        {func(x *facts) { x.First, x.Repeats = slow, []battery.Speed{quick} }, battery.Pass, ""},
	"slow, slow": {func(x *facts) { x.First, x.Repeats = slow, []battery.Speed{slow} },
		battery.TimeAgain, battery.SlowTokens},
	"slow twice, quick": {func(x *facts) { x.First, x.Repeats = slow, []battery.Speed{slow, quick} },
		battery.Pass, ""},
	"slow thrice": {func(x *facts) { x.First, x.Repeats = slow, []battery.Speed{slow, slow} },
		battery.Fail, battery.SlowTokens},
	"first token 5 s": {func(x *facts) { x.First = speed(64, 5*time.Second) }, battery.Pass, ""},
	"first token": {func(x *facts) { x.First = speed(64, 5*time.Second+1) },
		battery.TimeAgain, battery.SlowFirst},
	"one of 20 late":  {func(x *facts) { x.First.FirstTokens[3] = time.Hour }, battery.Pass, ""},
	"small":           {func(x *facts) { x.Small, x.First.FirstTokens = true, nil }, battery.Pass, ""},
	"no first tokens": {func(x *facts) { x.First.FirstTokens = nil }, battery.Void, battery.TooLittle},
	"two timings":     {func(x *facts) { x.First.Answers = x.First.Answers[:2] }, battery.Void, battery.TooLittle},
	"little in a repeat": {func(x *facts) { x.First, x.Repeats = slow, make([]battery.Speed, 1) },
		battery.Void, battery.TooLittle},
	"more than was asked": {func(x *facts) { x.Answered = 101 }, battery.Void, battery.ImpossibleRun},
	"nothing asked":       {func(x *facts) { x.Asked, x.Answered = 0, 0 }, battery.Void, battery.ImpossibleRun},
	"41 questions": {func(x *facts) { x.Questions = append(x.Questions, battery.Question{ID: "41"}) },
		battery.Void, battery.ImpossibleRun},
	"one chunk": {func(x *facts) { x.First.Answers[0].Took = 0 }, battery.Pass, ""},
	"no tokens": {func(x *facts) { x.First.Answers[0].Tokens = 0 }, battery.Pass, ""},
	"one chunk each": {func(x *facts) {
		for i := range x.First.Answers {
			x.First.Answers[i].Took = 0
		}
	}, battery.Void, battery.TooLittle},
	"time below 0":     {func(x *facts) { x.First.Answers[0].Took = -1 }, battery.Void, battery.ImpossibleRun},
	"before the start": {func(x *facts) { x.First.FirstTokens[0] = -1 }, battery.Void, battery.ImpossibleRun},
	"three repeats":    {func(x *facts) { x.Repeats = make([]battery.Speed, 3) }, battery.Void, battery.ImpossibleRun},
	"median NaN":       {func(x *facts) { x.ClassMedian = math.NaN() }, battery.Void, battery.ImpossibleRun},
	"huge window":      {func(x *facts) { x.StatedTokens = math.MaxInt64 }, battery.Void, battery.ImpossibleRun},
	"many timings": {func(x *facts) { x.First.FirstTokens = make([]time.Duration, battery.MaxTimings+1) },
		battery.Void, battery.ImpossibleRun},
}

func TestEachRuleFailsAloneAtItsBound(t *testing.T) {
	t.Parallel()
	for name, c := range spoiltRuns {
		run := good()
		c.spoil(&run)
		got := battery.Judge(run)
		var found []battery.Finding
		if c.found != "" {
			found = []battery.Finding{c.found}
		}
		if got.Outcome != c.want {
			t.Errorf("%s: got %+v, want %s with %v", name, got, c.want, found)
		}
		if !slices.Equal(got.Findings, found) {
			t.Errorf("%s: got %+v, want %s with %v", name, got, c.want, found)
		}
	}
}

func TestSlowRunsAreTimedAgainAfterOneHourAndSix(t *testing.T) {
	t.Parallel()
	facts := good()
	facts.First = speed(1, time.Second)
	for _, want := range []time.Duration{time.Hour, 6 * time.Hour, 0} {
		got := battery.Judge(facts)
		if got.Wait != want {
			t.Errorf("after %d repeats: got %v, want %v", len(facts.Repeats), got.Wait, want)
		}
		facts.Repeats = append(facts.Repeats, facts.First)
		facts.Repeats = facts.Repeats[:min(2, len(facts.Repeats))]
	}
}

func TestAllFindingsAreNamed(t *testing.T) {
	t.Parallel()
	facts := good()
	facts.Answered, facts.MeasuredTokens = 0, 1
	facts.Questions, facts.Again = first(9), again(9)
	want := []battery.Finding{battery.Unanswered, battery.SmallWindow, battery.OtherAnswers}
	if got := battery.Judge(facts); !reflect.DeepEqual(got, battery.Judgement{Outcome: battery.Fail, Findings: want}) {
		t.Errorf("got %+v, want a failure with %v", got, want)
	}
	facts.Uncalibrated, want[2] = true, battery.Uncalibrated
	if got := battery.Judge(facts); !reflect.DeepEqual(got, battery.Judgement{Outcome: battery.Fail, Findings: want}) {
		t.Errorf("uncalibrated: got %+v, want a failure with %v", got, want)
	}
}

// The figures that verification.md promises, from the binomial.
func TestHonestRunsFailAsRarelyAsPromised(t *testing.T) {
	t.Parallel()
	once := calibration.UpperTail(battery.Questions, battery.MaxExceeding, calibration.Q0)
	run := once * once
	if got := fmt.Sprintf("%.1e", run); got != "5.6e-05" {
		t.Errorf("one run: got %s, want 5.6e-05", got)
	}
	year := 12 * run * run // thirteen runs of 30 days have twelve pairs
	if got := fmt.Sprintf("%.0e", year); got != "4e-08" {
		t.Errorf("two in a row in a year: got %s, want 4e-08", got)
	}
	// The same with the package's own decision, at an exceedance of .05 that can be counted.
	const trials = 20_000
	r := rand.New(rand.NewPCG(5, 55))
	draw := func() (n int) {
		for range battery.Questions {
			if r.Float64() < 0.05 {
				n++
			}
		}
		return n
	}
	failed := 0
	for range trials {
		facts := good()
		facts.Questions = first(draw())
		if battery.Judge(facts).Outcome == battery.AskAgain {
			facts.Again = again(draw())
		}
		if battery.Judge(facts).Outcome == battery.Fail {
			failed++
		}
	}
	p := calibration.UpperTail(battery.Questions, battery.MaxExceeding, 0.05)
	if got, want := float64(failed)/trials, p*p; math.Abs(got-want) > 0.01 {
		t.Errorf("at .05: got %v, want %v", got, want)
	}
}

func TestTrafficRenewsABenchmark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		t    battery.Traffic
		want bool
	}{
		{battery.Traffic{Served: 200, M: 19.9, Recalled: true}, true},
		{battery.Traffic{Served: 199, M: 0, Recalled: true}, false},
		{battery.Traffic{Served: 200, M: 20, Recalled: true}, false},
		{battery.Traffic{Served: 200, M: math.NaN(), Recalled: true}, false},
		{battery.Traffic{Served: 200, M: 0}, false},
	} {
		if got := c.t.Renews(); got != c.want {
			t.Errorf("%+v: got %v, want %v", c.t, got, c.want)
		}
	}
}

// A better run is never judged worse, and judgements are known to the letter.
func TestJudgementsAreFunctionsOfTheirInputs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 66))
	h := sha256.New()
	for range 5_000 {
		facts := good()
		facts.First = speed(float64(1+r.IntN(10)), time.Duration(r.IntN(7))*time.Second)
		for range r.IntN(3) {
			facts.Repeats = append(facts.Repeats, speed(float64(1+r.IntN(10)), time.Second))
		}
		facts.Answered, facts.MeasuredTokens = 96+r.IntN(5), int64(29_000+r.IntN(3000))
		facts.Questions = first(r.IntN(6))
		if r.IntN(2) == 0 {
			facts.Again = again(r.IntN(6))
		}
		got := battery.Judge(facts)
		if again := battery.Judge(facts); !reflect.DeepEqual(again, got) {
			t.Fatalf("got %+v, then %+v, want the same", got, again)
		}
		better := facts
		better.Answered, better.MeasuredTokens, better.Questions = 100, 32_000, first(0)
		better.First = speed(64, 0)
		if b := battery.Judge(better); b.Outcome != battery.Pass {
			t.Fatalf("a better run: got %+v, want a pass", b)
		}
		fmt.Fprintln(h, got)
	}
	const want = "c0e4f8d2bb91c11e8468f615d7d546ff6c151d47feb8197b5c21f82d1d4a2768"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
