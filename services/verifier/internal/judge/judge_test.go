package judge_test

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// must judges a record.
func must(t *testing.T, r judge.Record) judge.Judgement {
	t.Helper()
	j, err := judge.Judge(r)
	if err != nil {
		t.Fatalf("judge: %v", err)
	}
	return j
}

// bits are the observations of a judgement, by the letters of families.
func bits(j judge.Judgement) string {
	out := ""
	for _, o := range j.Observations {
		b := "0"
		if o.Exceeded() {
			b = "1"
		}
		out += o.Family().Letter() + b
	}
	return out
}

func TestAProbeSaysAtMostOneThingForEachFamily(t *testing.T) {
	t.Parallel()
	replay := judgetest.Greedy(t, judgetest.Say{})
	replay.Plan.Kind, replay.Plan.Repeats = probe.Replay, probe.ID{1}
	replay.Earlier = replay.Answer.Raw
	hangUp := judgetest.Greedy(t, judgetest.Say{})
	hangUp.Plan.HangUp, hangUp.Plan.Streamed, hangUp.Answer.Complete = 5, true, false
	uncalibrated := judgetest.Greedy(t, judgetest.Say{})
	uncalibrated.Calibrations = nil
	for name, c := range map[string]struct {
		record judge.Record
		want   string
	}{
		"greedy":              {judgetest.Greedy(t, judgetest.Say{}), "B0U0"},
		"greedy exceeds":      {judgetest.Greedy(t, judgetest.Say{Exceeded: true}), "B1U0"},
		"visible feeds V":     {judgetest.Greedy(t, judgetest.Say{Visible: true, Exceeded: true}), "V1"},
		"recall":              {judgetest.Recall(t, judgetest.Say{}), "D0"},
		"recall exceeds":      {judgetest.Recall(t, judgetest.Say{Exceeded: true}), "D1"},
		"a prompt that again": {replay, "U0"},
		"hung up":             {hangUp, "B0"},
		"uncalibrated":        {uncalibrated, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := bits(must(t, c.record)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAnUncalibratedFamilyStillHasParts(t *testing.T) {
	t.Parallel()
	r := judgetest.Greedy(t, judgetest.Say{Exceeded: true})
	r.Calibrations = nil
	got := must(t, r).Parts[evidence.Greedy]
	if len(got) != 1 {
		t.Fatalf("got the parts %v, want one", got)
	}
	if got[0] < 1 {
		t.Errorf("got the part %v, want at least 1", got[0])
	}
}

func TestAnAnswerThatEqualsAnEarlierOneExceedsIfItIsImprobable(t *testing.T) {
	t.Parallel()
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Plan.Kind, r.Plan.Repeats, r.Earlier = probe.Replay, probe.ID{1}, r.Answer.Raw
	r.Scores[0].Raw = judgetest.Score(judgetest.Answer, 50, -.9, -.7)
	if got := bits(must(t, r)); got != "U1" {
		t.Errorf("got %q, want U1", got)
	}
}

func TestWhatAnswersCannotBeJudgedByIsVoid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*judge.Record)
		want   statistic.Void
	}{
		"another provider": {func(r *judge.Record) { r.Answer.Served = "another" }, statistic.OtherProvider},
		"a failure":        {func(r *judge.Record) { r.Answer.Failed = true }, statistic.Failed},
		"an error":         {func(r *judge.Record) { r.Answer.Status = 500 }, statistic.Failed},
		"cut":              {func(r *judge.Record) { r.Answer.Complete = false }, statistic.Failed},
		"an error inside": {func(r *judge.Record) { r.Answer.Raw = []byte(`{"error":{"message":"no"}}`) },
			statistic.Failed},
		"no score":    {func(r *judge.Record) { r.Scores = nil }, statistic.NoReference},
		"a bad score": {func(r *judge.Record) { r.Scores[0].Raw = []byte(`{`) }, statistic.NoReference},
		"a score without numbers": {func(r *judge.Record) { r.Scores[0].Raw = []byte(`{"prompt_logprobs":null}`) },
			statistic.NoReference},
		"nothing":     {func(r *judge.Record) { r.Answer.Raw = nil }, statistic.Malformed},
		"no JSON":     {func(r *judge.Record) { r.Answer.Raw = []byte("<html>") }, statistic.Malformed},
		"a list":      {func(r *judge.Record) { r.Answer.Raw = []byte("[1]") }, statistic.Malformed},
		"null events": {func(r *judge.Record) { r.Answer.Raw = []byte("data: null\n\n") }, statistic.Malformed},
		"a name twice": {func(r *judge.Record) {
			r.Answer.Raw = []byte(`{"choices":[{"message":{"content":"a","content":"b"}}]}`)
		}, statistic.Malformed},
		"two choices": {func(r *judge.Record) {
			r.Answer.Raw = []byte(`{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`)
		}, statistic.Malformed},
		"content of another type": {func(r *judge.Record) {
			r.Answer.Raw = []byte(`{"choices":[{"message":{"content":{"a":1}}}]}`)
		}, statistic.Malformed},
		"text behind the end": {func(r *judge.Record) {
			r.Answer.Raw = []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n" +
				"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n")
		}, statistic.Malformed},
		"events behind done": {func(r *judge.Record) {
			r.Answer.Raw = []byte("data: [DONE]\n\ndata: {\"choices\":[]}\n\n")
		}, statistic.Malformed},
		"an event of two documents": {func(r *judge.Record) {
			r.Answer.Raw = []byte("data: {\"choices\":[]}\ndata: {\"choices\":[]}\n\n")
		}, statistic.Malformed},
		"an empty answer": {func(r *judge.Record) { r.Answer.Raw = []byte(`{"choices":[{"message":{"content":""}}]}`) },
			statistic.Blank},
		"an endless answer": {func(r *judge.Record) {
			r.Answer.Raw = []byte(`{"choices":[{"message":{"content":"` + string(make40k()) + `"}}]}`)
		}, statistic.TooLarge},
		"a text that the score is not of": {func(r *judge.Record) {
			r.Answer.Raw = []byte(`{"choices":[{"message":{"content":"another text than the scored one"}}]}`)
		}, statistic.NoReference},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := judgetest.Greedy(t, judgetest.Say{})
			c.change(&r)
			j := must(t, r)
			if got := j.Voids[evidence.Greedy]; got != c.want {
				t.Errorf("got the void %q, want %q", got, c.want)
			}
			if got := bits(j); got != "" {
				t.Errorf("got the observations %q, want none", got)
			}
		})
	}
}

func make40k() []byte {
	b := make([]byte, 40_000)
	for i := range b {
		b[i] = 'a'
	}
	return b
}

func TestVoidsThatTheProviderCausedAreSilence(t *testing.T) {
	t.Parallel()
	silent := must(t, judgetest.Silent(t, judgetest.Say{}))
	if got := silent.Voids[evidence.Logprobs]; got != statistic.NoLogprobs {
		t.Errorf("got the void %q, want %q", got, statistic.NoLogprobs)
	}
	if !silent.Silent {
		t.Error("an answer without the declared log-probabilities is not silent")
	}
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Scores = nil
	if must(t, r).Silent {
		t.Error("an answer without a reference is silent")
	}
}

func TestARecordThatWeCannotHaveMadeIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*judge.Record){
		"version":          func(r *judge.Record) { r.Version++ },
		"no id":            func(r *judge.Record) { r.Plan.ID = probe.ID{} },
		"kind":             func(r *judge.Record) { r.Plan.Kind = "guess" },
		"flow":             func(r *judge.Record) { r.Plan.Flow = "" },
		"V by R":           func(r *judge.Record) { r.Plan.Flow, r.Plan.Feeds = probe.Visible, evidence.Sampled },
		"needles":          func(r *judge.Record) { r.Needles = []string{"123456"} },
		"asked":            func(r *judge.Record) { judgetest.Needles(r, 2); r.Plan.Asked[1] = 2 },
		"alternative":      func(r *judge.Record) { r.Plan.Alternatives = []evidence.Alternative{99} },
		"answer":           func(r *judge.Record) { r.Answer.Raw = make([]byte, statistic.MaxBody+1) },
		"score":            func(r *judge.Record) { r.Scores[0].Raw = make([]byte, statistic.MaxBody+1) },
		"scores":           func(r *judge.Record) { r.Scores = make([]judge.Score, judge.MaxScores+1) },
		"chunks":           func(r *judge.Record) { r.Answer.Chunks = make([]judge.Chunk, judge.MaxChunks+1) },
		"calibration":      func(r *judge.Record) { r.Calibrations["greedy"] = []byte("VCAL") },
		"family":           func(r *judge.Record) { r.Calibrations["guess"] = r.Calibrations["greedy"] },
		"another's family": func(r *judge.Record) { r.Calibrations["recall"] = r.Calibrations["greedy"] },
		"number of parts": func(r *judge.Record) {
			r.Calibrations["greedy"] = judgetest.Calibration(t, evidence.Greedy, 1, 1)
		},
		"another's stratum": func(r *judge.Record) { r.Plan.Stratum.Model = "acme/other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := judgetest.Greedy(t, judgetest.Say{})
			change(&r)
			if _, err := judge.Judge(r); !errors.Is(err, judge.ErrRecord) {
				t.Errorf("got %v, want %v", err, judge.ErrRecord)
			}
		})
	}
}

func TestFingerprintsAreRightWrongOrNothing(t *testing.T) {
	t.Parallel()
	unread := judgetest.Fingerprint(t, judgetest.Say{Exceeded: true})
	unread.Answer.Raw = []byte(`{"digests":[""],"error":"cannot be read"}`)
	short := judgetest.Fingerprint(t, judgetest.Say{})
	short.Answer.Raw = []byte(`{"digests":["AAAA"]}`)
	for name, c := range map[string]struct {
		record       judge.Record
		right, wrong bool
	}{
		"right":  {judgetest.Fingerprint(t, judgetest.Say{}), true, false},
		"wrong":  {judgetest.Fingerprint(t, judgetest.Say{Exceeded: true}), false, true},
		"unread": {unread, false, false},
		"short":  {short, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := must(t, c.record)
			if got, want := [2]bool{j.FilesRight, j.FilesWrong}, [2]bool{c.right, c.wrong}; got != want {
				t.Errorf("got right and wrong %v, want %v", got, want)
			}
		})
	}
}

func TestEmbeddingsAreComparedAsNumbersAndAsBase64(t *testing.T) {
	t.Parallel()
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Plan.Kind = probe.Embedding
	r.Scores[0].Raw = []byte(`{"data":[{"embedding":[1,0]}],"usage":{"prompt_tokens":3}}`)
	for name, c := range map[string]struct {
		raw, want string
	}{
		"equal":            {`{"data":[{"embedding":[2,0]}]}`, "B0"},
		"base64":           {`{"data":[{"embedding":"AACAPwAAAAA="}]}`, "B0"},
		"orthogonal":       {`{"data":[{"embedding":[0,1]}]}`, "B1"},
		"another length":   {`{"data":[{"embedding":[1,0,0]}]}`, "B1"},
		"no base64":        {`{"data":[{"embedding":"?"}]}`, ""},
		"infinite":         {`{"data":[{"embedding":"AACAfwAAAAA="}]}`, ""},
		"several vectors":  {`{"data":[{"embedding":[1]},{"embedding":[1]}]}`, ""},
		"nothing":          {`{"data":[]}`, ""},
		"null in a vector": {`{"data":[{"embedding":[1,"x"]}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := r
			one.Answer.Raw = []byte(c.raw)
			if got := bits(must(t, one)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// sampled is a record of family R against a 4-bit reference.
func sampled(t *testing.T) judge.Record {
	t.Helper()
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Plan.Kind = probe.Sampled
	r.Plan.Alternatives = []evidence.Alternative{evidence.Class4, evidence.Cooler}
	r.Scores = append(r.Scores, judge.Score{Host: "reference-1", Class: 4, Alternative: evidence.Class4.String(),
		Raw: judgetest.Score(judgetest.Answer, 50, -.2, -1.9)})
	r.Calibrations[evidence.Sampled.String()] = judgetest.Ratios(t, evidence.Class4, evidence.Cooler)
	return r
}

func TestASampledAnswerIsWeighedAgainstTheAlternativesOfItsPlan(t *testing.T) {
	t.Parallel()
	j := must(t, sampled(t))
	if got := bits(j); got != "R1U0" {
		t.Errorf("got %q, want R1U0", got)
	}
	if got := len(j.Ratios); got != 2 {
		t.Errorf("got %d ratios, want 2", got)
	}
}

func TestACalibratedAlternativeWithoutAScoreVoidsTheSampledAnswer(t *testing.T) {
	t.Parallel()
	r := sampled(t)
	r.Scores = r.Scores[:1]
	j := must(t, r)
	if got := j.Voids[evidence.Sampled]; got != statistic.NoReference {
		t.Errorf("got the void %q, want %q", got, statistic.NoReference)
	}
	r.Calibrations[evidence.Sampled.String()] = judgetest.Ratios(t, evidence.Cooler)
	if got := bits(must(t, r)); got != "R0U0" {
		t.Errorf("without its calibration: got %q, want R0U0", got)
	}
}

func TestOnlyAHiddenRecallIsOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say  judgetest.Say
		want bool
	}{
		"hidden": {judgetest.Say{}, true}, "lost": {judgetest.Say{Exceeded: true}, false},
		"visible": {judgetest.Say{Visible: true}, false},
	} {
		if got := must(t, judgetest.Recall(t, c.say)).Recalled; got != c.want {
			t.Errorf("%s: got recalled %t, want %t", name, got, c.want)
		}
	}
}

func TestACheckPassesWithFewNeedlesLost(t *testing.T) {
	t.Parallel()
	at := []int{100, 200, 300, 400, 500, 600, 700, 800}
	for windowTokens, want := range map[int]bool{800: true, 700: true, 600: false, 100: false} {
		r := judgetest.Measured(t, judgetest.Say{}, probe.Check, at, windowTokens)
		if got := must(t, r).CheckPassed; got != want {
			t.Errorf("a window of %d: got passed %t, want %t", windowTokens, got, want)
		}
	}
}

func TestTwoScoresOfAnAnswerAreCompared(t *testing.T) {
	t.Parallel()
	far := judgetest.Score(judgetest.Answer, 50, -.8, -.7)     // .1 behind the best: X = 1
	farther := judgetest.Score(judgetest.Answer, 50, -1.7, -1) // .7 behind the best: X = 7
	near := judgetest.Score(judgetest.Answer, 50, -.6, -.8)
	for name, c := range map[string]struct {
		first, second []byte
		apart         float64
		compared      bool
	}{
		"alike":              {near, near, 0, true},
		"one sees more":      {near, far, 1, true},
		"both exceed":        {farther, judgetest.Score(judgetest.Answer, 50, -1.7, -.3), 0, true},
		"the second is void": {near, []byte("{}"), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := judgetest.Greedy(t, judgetest.Say{})
			r.Scores[0].Raw = c.first
			r.Scores = append(r.Scores, judge.Score{Host: "reference-2", Class: 16, Raw: c.second})
			j := must(t, r)
			if j.Compared != c.compared {
				t.Errorf("got compared %t, want %t", j.Compared, c.compared)
			}
			if math.Abs(j.Apart-c.apart) > 1e-9 {
				t.Errorf("got %v apart, want %v", j.Apart, c.apart)
			}
		})
	}
}

func TestARefusalAsTooLongSaysNothingForAnyFamily(t *testing.T) {
	t.Parallel()
	r := judgetest.Recall(t, judgetest.Say{})
	r.Answer.TooLong, r.Answer.Status, r.Answer.Complete, r.Answer.Raw = true, 400, false, nil
	j := must(t, r)
	if !j.Refused {
		t.Error("a refusal is not reported")
	}
	if got := bits(j); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

func FuzzJudgeIsTotalAndDeterministic(f *testing.F) {
	greedy := judgetest.Greedy(f, judgetest.Say{})
	f.Add(greedy.Answer.Raw, greedy.Scores[0].Raw, greedy.Answer.Raw, uint8(0), int64(50), true)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"), []byte("{}"), []byte("{}"),
		uint8(2), int64(-1), false)
	f.Add([]byte(`{"data":[{"embedding":[1e999]}]}`), []byte(`{"data":[{"embedding":[1]}]}`), []byte(nil), uint8(7),
		int64(1)<<62, true)
	f.Fuzz(func(t *testing.T, answer, score, earlier []byte, kind uint8, claimed int64, visible bool) {
		r := judgetest.Greedy(t, judgetest.Say{})
		judgetest.Needles(&r, 4)
		r.Plan.Kind = probe.Kinds()[int(kind)%len(probe.Kinds())]
		r.Plan.Repeats, r.Plan.Greedy = probe.ID{1}, kind&1 == 0
		r.Plan.Alternatives = []evidence.Alternative{evidence.Class4, evidence.Cooler}
		r.Answer.Raw, r.Scores[0].Raw, r.Earlier, r.Expected = answer, score, earlier, earlier
		r.Answer.ClaimedPrompt, r.Answer.ClaimedOutput = claimed, -claimed
		if visible || r.Plan.Kind == probe.Fingerprint {
			r.Plan.Flow, r.Plan.Feeds = probe.Visible, evidence.Greedy
		}
		first, err := judge.Judge(r)
		if err != nil {
			t.Fatalf("what others sent is an error: %v", err)
		}
		again, err := judge.Judge(r)
		if err != nil {
			t.Fatalf("the second time: %v", err)
		}
		if !reflect.DeepEqual(first, again) {
			t.Errorf("got %+v, then %+v", first, again)
		}
		seen := map[evidence.Family]bool{}
		for _, o := range first.Observations {
			if seen[o.Family()] {
				t.Errorf("%v is observed twice", o.Family())
			}
			seen[o.Family()] = true
		}
	})
}
