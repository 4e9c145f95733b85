package bench_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func setup() bench.Setup {
	return bench.Setup{
		Offer: probe.Offer{Provider: ids.ProviderID{1, 15: 1}, Model: "acme/large"}, Basis: bench.First,
		StatedTokens: 32_768, Capacity: 8, ClassMedian: 40, BytesPerToken: 4, Logprobs: true, Fingerprint: true,
		Calibrated: true,
	}
}

func begin(t *testing.T, s bench.Setup) bench.Run {
	t.Helper()
	r, err := bench.Begin(probe.RunID{1, 15: 7}, s, noon)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// provider answers questions.
type provider struct {
	// speed is in tokens per second; later ones are those of the repeats.
	speed []float64
	// exceeds is the share of judged answers that exceed, fails that of questions without an
	// answer, voids that of answers without an observation.
	exceeds, fails, voids float64
	window                int
	dice                  *rand.Rand
}

func honest() *provider {
	return &provider{speed: []float64{50}, exceeds: .0006, window: 1 << 30, dice: rand.New(rand.NewPCG(1, 2))}
}

func (v *provider) answer(r bench.Run, p probe.Plan) bench.Report {
	report := bench.Report{Plan: p.ID, Answered: v.dice.Float64() >= v.fails}
	if !report.Answered {
		return report
	}
	repeat := slices.Index([]bench.Stage{bench.Alone, bench.Repeat, bench.SecondRepeat}, r.Stage)
	speed := v.speed[max(0, min(repeat, len(v.speed)-1))]
	report.Tokens = int64(p.MaxTokens)
	report.FirstMicros = int64(p.PromptTokens) * 20
	report.Micros = int64(float64(p.MaxTokens) / speed * 1e6)
	if p.Feeds != evidence.NoFamily && v.dice.Float64() >= v.voids {
		report.Judged, report.Exceeded = true, v.dice.Float64() < v.exceeds
	}
	for _, at := range p.FromEnd {
		if at <= v.window {
			report.Oldest = max(report.Oldest, at)
		}
	}
	return report
}

// finish carries a run to its end. Between two steps each is called.
func (v *provider) finish(t *testing.T, r bench.Run, each func(bench.Run) bench.Run) bench.Run {
	t.Helper()
	now := noon
	for steps := 0; !r.Ended(); steps++ {
		if steps > 1_000 {
			t.Fatal("the run does not end")
		}
		now = now.Add(time.Second)
		if r.Due().After(now) {
			now = r.Due()
		}
		next := r.Next(now)
		if len(next) == 0 {
			t.Fatalf("stage %s: got no question, want one", r.Stage)
		}
		var err error
		if r, err = r.Took(v.answer(r, next[0]), now); err != nil {
			t.Fatal(err)
		}
		if each != nil {
			r = each(r)
		}
	}
	return r
}

func outcome(t *testing.T, r bench.Run, want battery.Outcome, findings ...battery.Finding) {
	t.Helper()
	j := r.Judgement()
	if j.Outcome != want {
		t.Errorf("outcome: got %s %v, want %s", j.Outcome, j.Findings, want)
	}
	if !slices.Equal(j.Findings, findings) {
		t.Errorf("findings: got %v, want %v", j.Findings, findings)
	}
}

func TestAnHonestRunPasses(t *testing.T) {
	t.Parallel()
	stages := map[bench.Stage]int{}
	r := honest().finish(t, begin(t, setup()), func(r bench.Run) bench.Run {
		stages[r.Stage]++
		return r
	})
	outcome(t, r, battery.Pass)
	f := r.Facts()
	if got := len(f.Questions); got != battery.Questions {
		t.Errorf("questions: got %d, want %d", got, battery.Questions)
	}
	if got := len(f.First.Answers); got != battery.SpeedAnswers {
		t.Errorf("timed answers: got %d, want %d", got, battery.SpeedAnswers)
	}
	if got := len(f.First.FirstTokens); got != 5 {
		t.Errorf("times to first token: got %d, want 5", got)
	}
	// 5 alone, 7 first tokens, 2 + 4 + 8 together, 40 questions, 2 recalls, 1 fingerprint.
	if got := f.Asked; got != 69 {
		t.Errorf("questions of the whole run: got %d, want 69", got)
	}
	if got := f.MeasuredTokens; got < 32_768*95/100 {
		t.Errorf("measured window: got %d, want at least 95%% of 32768", got)
	}
	if _, there := stages[bench.Others]; there {
		t.Error("other questions: got some, want none")
	}
}

func TestQuestionsFeedVByTheFamilyThatWasChosen(t *testing.T) {
	t.Parallel()
	feeds := map[evidence.Family]int{}
	r := begin(t, setup())
	v := honest()
	for now := noon; !r.Ended(); {
		for _, p := range r.Next(now) {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			got, want := []any{p.Flow, p.Purpose, p.Run}, []any{probe.Visible, probe.Benchmark, r.ID}
			if !slices.Equal(got, want) {
				t.Errorf("flow, purpose and run of a question: got %v, want %v", got, want)
			}
			feeds[p.Feeds]++
			r, _ = r.Took(v.answer(r, p), now)
		}
	}
	for _, f := range []evidence.Family{evidence.Greedy, evidence.Logprobs} {
		if got := feeds[f]; got != 20 {
			t.Errorf("questions by which %v feeds V: got %d, want 20", f, got)
		}
	}
}

func TestARestartAtAnyStepGivesTheSameFacts(t *testing.T) {
	t.Parallel()
	for name, cheat := range map[string]func(*provider){
		"honest": func(*provider) {}, "other answers": func(v *provider) { v.exceeds = .3 },
		"slow": func(v *provider) { v.speed = []float64{3, 3, 60} }, "small": func(v *provider) { v.window = 9_000 },
	} {
		one, two := honest(), honest()
		cheat(one)
		cheat(two)
		whole := one.finish(t, begin(t, setup()), nil)
		restarted := two.finish(t, begin(t, setup()), func(r bench.Run) bench.Run {
			form, err := r.Form()
			if err != nil {
				t.Fatal(err)
			}
			again, err := bench.ReadRun(form)
			if err != nil {
				t.Fatal(err)
			}
			return again
		})
		if !reflect.DeepEqual(restarted.Facts(), whole.Facts()) {
			t.Errorf("%s: got %+v, want %+v", name, restarted.Facts(), whole.Facts())
		}
	}
}

func TestOtherAnswersAreAskedAgainAndFail(t *testing.T) {
	t.Parallel()
	v := honest()
	v.exceeds = .5
	r := v.finish(t, begin(t, setup()), nil)
	outcome(t, r, battery.Fail, battery.OtherAnswers)
	f := r.Facts()
	seen := map[string]bool{}
	for _, q := range slices.Concat(f.Questions, f.Again) {
		if seen[q.ID] {
			t.Errorf("question %s: got it twice, want it once", q.ID)
		}
		seen[q.ID] = true
	}
	if got := len(seen); got != 2*battery.Questions {
		t.Errorf("questions: got %d, want %d", got, 2*battery.Questions)
	}
}

func TestAnHonestSecondCountPasses(t *testing.T) {
	t.Parallel()
	v := honest()
	v.exceeds = .5
	r := v.finish(t, begin(t, setup()), func(r bench.Run) bench.Run {
		if r.Stage == bench.Others {
			v.exceeds = 0
		}
		return r
	})
	outcome(t, r, battery.Pass)
}

func TestASlowRunIsTimedAgainAfterOneAndSixHours(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		speed []float64
		want  battery.Outcome
		after []time.Duration
	}{
		"always slow":     {[]float64{10}, battery.Fail, []time.Duration{time.Hour, 6 * time.Hour}},
		"slow at first":   {[]float64{10, 50}, battery.Pass, []time.Duration{time.Hour}},
		"slow for longer": {[]float64{10, 10, 50}, battery.Pass, []time.Duration{time.Hour, 6 * time.Hour}},
	} {
		v := honest()
		v.speed = c.speed
		var after []time.Duration
		last := noon
		r := v.finish(t, begin(t, setup()), func(r bench.Run) bench.Run {
			if wait := r.Due().Sub(last); wait >= time.Hour/2 {
				after = append(after, wait.Round(time.Hour/2))
			}
			last = r.Due()
			return r
		})
		if got := r.Judgement().Outcome; got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if !slices.Equal(after, c.after) {
			t.Errorf("%s: timed again after %v, want %v", name, after, c.after)
		}
	}
}

func TestASmallWindowFails(t *testing.T) {
	t.Parallel()
	v := honest()
	v.window = 16_384
	r := v.finish(t, begin(t, setup()), nil)
	outcome(t, r, battery.Fail, battery.SmallWindow)
	if got := r.Facts().MeasuredTokens; got > 17_000 || got < 14_000 {
		t.Errorf("measured window: got %d, want about 16384", got)
	}
}

func TestAModelThatCannotRecallIsNotJudgedByIt(t *testing.T) {
	t.Parallel()
	v := honest()
	r := begin(t, setup())
	for now := noon; !r.Ended(); {
		for _, p := range r.Next(now) {
			report := v.answer(r, p)
			if p.Kind == probe.Recall {
				report.Oldest, report.Unknown = 0, true
			}
			r, _ = r.Took(report, now)
		}
	}
	outcome(t, r, battery.Pass)
}

func TestUnansweredQuestionsFail(t *testing.T) {
	t.Parallel()
	v := honest()
	v.fails = .1
	r := v.finish(t, begin(t, setup()), nil)
	if got := r.Judgement(); !slices.Contains(got.Findings, battery.Unanswered) {
		t.Errorf("findings: got %v, want %v among them", got.Findings, battery.Unanswered)
	}
}

// Each question waits ten minutes for a provider that says nothing, and there are few places.
func TestARunOfAProviderThatSaysNothingEndsSoon(t *testing.T) {
	t.Parallel()
	v := honest()
	v.fails = 1
	r := v.finish(t, begin(t, setup()), nil)
	outcome(t, r, battery.Fail, battery.Unanswered)
	if got, want := r.Facts().Asked, 4; got != want {
		t.Errorf("questions asked: got %d, want %d", got, want)
	}
	// The longest run could not be saved by all its other answers.
	most := battery.Facts{StatedTokens: 1, Asked: 186, Answered: 182}
	if got := battery.Judge(most).Outcome; got != battery.Fail {
		t.Errorf("4 of 186 unanswered: got %s, want %s", got, battery.Fail)
	}
}

func TestVoidQuestionsAreReplacedWithinABound(t *testing.T) {
	t.Parallel()
	v := honest()
	v.voids = .2
	r := v.finish(t, begin(t, setup()), nil)
	outcome(t, r, battery.Pass)
	if got := len(r.Facts().Questions); got != battery.Questions {
		t.Errorf("questions that are not void: got %d, want %d", got, battery.Questions)
	}
	v = honest()
	v.voids = 1
	r = v.finish(t, begin(t, setup()), nil)
	outcome(t, r, battery.Void, battery.TooLittle)
	if got := r.Facts().Asked; got != 69+20 {
		t.Errorf("questions of a run without observations: got %d, want %d", got, 69+20)
	}
}

func TestAQuestionThatNeverArrivesMakesTheRunVoid(t *testing.T) {
	t.Parallel()
	r := begin(t, setup())
	id := r.Next(noon)[0].ID
	for try := range bench.MaxTries {
		if r.Ended() {
			t.Fatalf("after %d tries: the run ended, want it to go on", try)
		}
		if got := r.Next(noon)[0].ID; got != id {
			t.Errorf("try %d: got the question %v, want %v", try, got, id)
		}
		var err error
		if r, err = r.NotAsked(id, noon); err != nil {
			t.Fatal(err)
		}
	}
	outcome(t, r, battery.Void, battery.Disturbed)
}

func TestReportsOfOthersAndSecondOnesChangeNothing(t *testing.T) {
	t.Parallel()
	r := begin(t, setup())
	p := r.Next(noon)[0]
	first, err := r.Took(bench.Report{Plan: p.ID, Answered: true, Tokens: 256, Micros: 1e6}, noon)
	if err != nil {
		t.Fatal(err)
	}
	second, err := first.Took(bench.Report{Plan: p.ID}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) {
		t.Error("a report that came twice: got another run, want the same")
	}
	if _, err := first.Took(bench.Report{Plan: probe.ID{9}}, noon); !errors.Is(err, bench.ErrRun) {
		t.Errorf("a report that nobody asked for: got the error %v, want %v", err, bench.ErrRun)
	}
	if got := len(r.Reports); got != 0 {
		t.Errorf("reports of the run before: got %d, want none", got)
	}
}

func TestAsManyAreAskedAtOnceAsTheOfferTakes(t *testing.T) {
	t.Parallel()
	for capacity, want := range map[int]int{0: 1, 1: 1, 2: 2, 6: 6, 8: 8, 1000: bench.MaxCapacity} {
		s := setup()
		s.Capacity = capacity
		v, r, most := honest(), begin(t, s), 0
		for now := noon; !r.Ended(); {
			next := r.Next(now)
			most = max(most, len(next))
			for _, p := range next {
				r, _ = r.Took(v.answer(r, p), now)
			}
		}
		if most != want {
			t.Errorf("capacity %d: got %d at once, want %d", capacity, most, want)
		}
		outcome(t, r, battery.Pass)
	}
}

func TestAQuickRunAsksFiveQuestions(t *testing.T) {
	t.Parallel()
	s := setup()
	s.Quick, s.Calibrated, s.StatedTokens, s.BytesPerToken = true, false, 4_096, 1
	v := honest()
	v.speed = []float64{.5}
	r := v.finish(t, begin(t, s), nil)
	outcome(t, r, battery.Pass, battery.Uncalibrated)
	if got := r.Facts().Asked; got != 5 {
		t.Errorf("questions: got %d, want 5", got)
	}
}

// An agent may pass on in one chunk what a fast engine has written meanwhile.
func TestAnswersInOneChunkAreTimedFromTheirQuestion(t *testing.T) {
	t.Parallel()
	for _, quick := range []bool{false, true} {
		s := setup()
		s.Quick = quick
		v, r := honest(), begin(t, s)
		for now := noon; !r.Ended(); {
			for _, p := range r.Next(now) {
				report := v.answer(r, p)
				report.FirstMicros, report.Micros = report.FirstMicros+report.Micros, 0
				r, _ = r.Took(report, now)
			}
		}
		outcome(t, r, battery.Pass)
	}
}

func TestAnEmbeddingModelIsAskedForVectorsAlone(t *testing.T) {
	t.Parallel()
	s := setup()
	s.Embeddings, s.Logprobs, s.Fingerprint = true, false, false
	v, r := honest(), begin(t, s)
	for now := noon; !r.Ended(); {
		for _, p := range r.Next(now) {
			if p.Kind != probe.Embedding {
				t.Errorf("a question of stage %s: got %s, want %s", r.Stage, p.Kind, probe.Embedding)
			}
			report := v.answer(r, p)
			report.Tokens, report.Micros = int64(p.PromptTokens), 10_000
			r, _ = r.Took(report, now)
		}
	}
	outcome(t, r, battery.Pass)
}

func TestTrafficRenews(t *testing.T) {
	t.Parallel()
	good := battery.Traffic{Served: 200, M: 1, Recalled: true}
	r, ok := bench.ByTraffic(probe.RunID{1}, setup(), good, noon)
	if !ok {
		t.Fatal("a renewal by traffic: got none, want one")
	}
	if !r.Ended() {
		t.Errorf("stage of a renewal by traffic: got %s, want %s", r.Stage, bench.Done)
	}
	outcome(t, r, battery.Pass)
	form, err := r.Form()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bench.ReadRun(form); err != nil {
		t.Errorf("read a renewal: got the error %v, want none", err)
	}
	good.Served = 199
	if _, ok := bench.ByTraffic(probe.RunID{1}, setup(), good, noon); ok {
		t.Error("199 requests: got a renewal, want none")
	}
}

func FuzzRun(f *testing.F) {
	r, err := bench.Begin(probe.RunID{1}, setup(), noon)
	if err != nil {
		f.Fatal(err)
	}
	for range 3 {
		r, _ = r.Took(bench.Report{Plan: r.Next(noon)[0].ID, Answered: true}, noon)
	}
	form, _ := r.Form()
	f.Add(form)
	f.Add([]byte(`{"id":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := bench.ReadRun(b)
		if err != nil {
			if !errors.Is(err, bench.ErrRun) {
				t.Fatalf("error: got %v, want %v", err, bench.ErrRun)
			}
			return
		}
		again, err := r.Form()
		if err != nil {
			t.Fatal(err)
		}
		if string(again) != string(b) {
			t.Errorf("form: got %s, want %s", again, b)
		}
		_ = r.Judgement()
		_ = r.Next(noon)
	})
}
