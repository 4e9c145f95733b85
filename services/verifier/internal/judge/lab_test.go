package judge_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/statistic"
)

// answers is how many answers of a kind a laboratory test judges. A true calibration has
// thousands; figures are measured in the laboratory of make verification.
const answers = 8

// ask returns records of answers to conversations of a seed. Answers that say nothing for
// the family, because they are short or leave no choice, are not among them.
func ask(t *testing.T, seed uint64, f evidence.Family, chat judgetest.Chat, provider *tinylm.Model) []judge.Record {
	t.Helper()
	talk, reference := lab.NewConversations(seed), lab.Base()
	var out []judge.Record
	for n := 0; len(out) < answers; n++ {
		if n == 20*answers {
			t.Fatalf("got %d answers that say something, want %d", len(out), answers)
		}
		chat.Messages, chat.MaxTokens = talk.Next(), 64
		if r := chat.Record(t, n, provider, reference, nil); must(t, r).Voids[f] == statistic.None {
			out = append(out, r)
		}
	}
	return out
}

// speaking returns a conversation that a model answers at length.
func speaking(t *testing.T, seed uint64, chat judgetest.Chat) judgetest.Chat {
	t.Helper()
	talk, reference := lab.NewConversations(seed), lab.Base()
	for range 20 * answers {
		chat.Messages, chat.MaxTokens = talk.Next(), 64
		if v := must(t, chat.Record(t, 0, reference, reference, nil)).Voids; v[evidence.Greedy]+v[evidence.Logprobs] == "" {
			return chat
		}
	}
	t.Fatal("no conversation is answered at length")
	return chat
}

// share judges records by a calibration and returns how many of the observations of a
// family exceed.
func share(t *testing.T, f evidence.Family, calibration []byte, records []judge.Record) (exceeded, n int) {
	t.Helper()
	for _, r := range records {
		r.Calibrations = map[string][]byte{f.String(): calibration}
		for _, o := range must(t, r).Observations {
			if n++; o.Exceeded() {
				exceeded++
			}
		}
	}
	if n == 0 {
		t.Fatalf("no answer says anything for %v", f)
	}
	return exceeded, n
}

func TestFourBitWeightsShowInGreedyAnswersOfARealEngine(t *testing.T) {
	t.Parallel()
	honest := ask(t, 1, evidence.Greedy, judgetest.Chat{}, lab.Honest(lab.Base(), 1))
	limits := judgetest.Calibration(t, evidence.Greedy, judgetest.Largest(t, evidence.Greedy, 1, honest)...)
	cheat := ask(t, 2, evidence.Greedy, judgetest.Chat{}, lab.Host(lab.Base(), tinylm.Variant{Seed: 2, WeightBits: 4}))
	exceeded, n := share(t, evidence.Greedy, limits, cheat)
	if exceeded*2 < n {
		t.Errorf("4 bits: got %d of %d exceeding, want at least half", exceeded, n)
	}
	other := ask(t, 3, evidence.Greedy, judgetest.Chat{}, lab.Honest(lab.Base(), 3))
	exceeded, n = share(t, evidence.Greedy, limits, other)
	if exceeded*4 > n {
		t.Errorf("honest: got %d of %d exceeding, want at most a quarter", exceeded, n)
	}
}

func TestFourBitWeightsShowInStatedLogprobsOfARealEngine(t *testing.T) {
	t.Parallel()
	chat := judgetest.Chat{Logprobs: true}
	honest := ask(t, 4, evidence.Logprobs, chat, lab.Honest(lab.Base(), 4))
	limits := judgetest.Calibration(t, evidence.Logprobs, judgetest.Largest(t, evidence.Logprobs, 2, honest)...)
	cheat := ask(t, 5, evidence.Logprobs, chat, lab.Host(lab.Base(), tinylm.Variant{Seed: 5, WeightBits: 4}))
	exceeded, n := share(t, evidence.Logprobs, limits, cheat)
	if exceeded*10 < n*9 {
		t.Errorf("4 bits: got %d of %d exceeding, want nine of ten", exceeded, n)
	}
}

func TestAStreamAndAWholeAnswerAreJudgedAlike(t *testing.T) {
	t.Parallel()
	provider, reference := lab.Honest(lab.Base(), 6), lab.Base()
	seed := int64(11)
	chat := speaking(t, 6, judgetest.Chat{Seed: &seed, Logprobs: true})
	record := func(stream bool) judge.Record {
		chat.Stream = stream
		return chat.Record(t, 1, provider, reference, map[evidence.Alternative]*tinylm.Model{evidence.Sibling: lab.Smaller()})
	}
	whole, streamed := must(t, record(false)), must(t, record(true))
	for _, f := range []evidence.Family{evidence.Logprobs, evidence.Usage} {
		if got, want := streamed.Parts[f], whole.Parts[f]; !equal(got, want) {
			t.Errorf("%v: got the parts %v of the stream, want %v", f, got, want)
		}
	}
	for _, g := range []evidence.Alternative{evidence.Sibling, evidence.Cooler, evidence.Hotter} {
		if got, want := streamed.Ratios[g], whole.Ratios[g]; got != want {
			t.Errorf("%v: got the ratio %v of the stream, want %v", g, got, want)
		}
	}
	if len(whole.Ratios) != 3 {
		t.Errorf("got %d ratios, want 3", len(whole.Ratios))
	}
}

// equal reports whether both are the same parts, and some.
func equal(a, b statistic.Parts) bool { return len(a) > 0 && slices.Equal(a, b) }

func TestAStreamOfDialectV1IsItsObjectsOneBehindTheOther(t *testing.T) {
	t.Parallel()
	chat := speaking(t, 7, judgetest.Chat{Stream: true})
	r := chat.Record(t, 1, lab.Honest(lab.Base(), 7), lab.Base(), nil)
	want := must(t, r).Parts[evidence.Greedy]
	v2 := strings.ReplaceAll(string(r.Answer.Raw), "data: [DONE]", "")
	r.Answer.Raw = []byte(strings.ReplaceAll(strings.ReplaceAll(v2, "data: ", ""), "\n", ""))
	if got := must(t, r).Parts[evidence.Greedy]; !equal(got, want) {
		t.Errorf("got the parts %v, want %v", got, want)
	}
}

func TestCharactersOfSeveralBytesJoinToTheScoreOfARealEngine(t *testing.T) {
	t.Parallel()
	const text = "Grüße aus Köln — 你好, ça va? Żółć, naïve façade, 🙂 und tschüß: ende."
	chat := judgetest.Chat{Messages: lab.NewConversations(8).Next(), MaxTokens: 200}
	r := judgetest.Greedy(t, judgetest.Say{})
	raw, err := json.Marshal(map[string]any{"choices": []any{map[string]any{
		"message": map[string]any{"content": text}, "finish_reason": "stop"}}})
	if err != nil {
		t.Fatalf("write an answer: %v", err)
	}
	r.Answer.Raw, r.Calibrations = raw, nil
	r.Scores[0].Raw = chat.Scored(t, lab.Base(), text)
	j := must(t, r)
	if v := j.Voids[evidence.Greedy]; slices.Contains([]statistic.Void{statistic.NotJoined, statistic.NoReference}, v) {
		t.Errorf("got the void %q, want a score that joins", v)
	}
	r.Scores[0].Raw = judge.Trim(r.Scores[0].Raw, text)
	if got, want := must(t, r).Voids[evidence.Greedy], j.Voids[evidence.Greedy]; got != want {
		t.Errorf("trimmed: got the void %q, want %q", got, want)
	}
}

func TestATrimmedScoreGivesTheSameJudgement(t *testing.T) {
	t.Parallel()
	chat := speaking(t, 9, judgetest.Chat{})
	r := chat.Record(t, 1, lab.Honest(lab.Base(), 9), lab.Base(), nil)
	text, _ := judge.Text(r.Answer.Raw)
	trimmed := must(t, r)
	whole := chat.Scored(t, lab.Base(), text)
	if len(r.Scores[0].Raw) >= len(whole) {
		t.Errorf("got %d bytes, want less than %d", len(r.Scores[0].Raw), len(whole))
	}
	r.Scores[0].Raw = whole
	for _, f := range []evidence.Family{evidence.Greedy, evidence.Usage} {
		if got, want := trimmed.Parts[f], must(t, r).Parts[f]; !equal(got, want) {
			t.Errorf("%v: got %v, want %v", f, got, want)
		}
	}
}

// recall asks an engine for the needles of a written prompt.
func recall(t *testing.T, n int, provider fakeengine.Recall, kind probe.Kind) judge.Record {
	t.Helper()
	w := prompt.NewWriter(prompt.Secret{1}, prompt.Demo())
	r := judgetest.Recall(t, judgetest.Say{N: n})
	r.Plan.Kind, r.Needles, r.Plan.FromEnd, r.Plan.Asked = kind, nil, nil, nil
	for i := range 16 {
		r.Plan.FromEnd = append(r.Plan.FromEnd, 200+i*230)
		if kind != probe.Recall || i%2 == 0 {
			r.Plan.Asked = append(r.Plan.Asked, i)
		}
	}
	plan := prompt.RecallPlan{Tokens: 4_000, FromEnd: r.Plan.FromEnd, Asked: r.Plan.Asked}
	written, err := w.Recall(prompt.ID{byte(n)}, plan)
	if err != nil {
		t.Fatalf("write a recall prompt: %v", err)
	}
	for _, needle := range written.Needles {
		r.Needles = append(r.Needles, needle.Code)
	}
	body, err := w.Body(prompt.ID{byte(n)}, written.Messages, prompt.Parameters{Model: judgetest.Model, MaxTokens: 400})
	if err != nil {
		t.Fatalf("write a body: %v", err)
	}
	r.Request = body
	r.Answer.Raw = engine(t, provider, body)
	r.Scores[0].Raw = engine(t, fakeengine.Recall{}, body)
	r.Answer.ClaimedPrompt, r.Answer.ClaimedOutput = judgetest.Claims(t, r.Answer.Raw)
	r.Calibrations[evidence.Usage.String()] = judgetest.Calibration(t, evidence.Usage, 2, .05, 3)
	return r
}

func engine(t *testing.T, behaviour fakeengine.Recall, body []byte) []byte {
	t.Helper()
	e := fakeengine.New(t)
	e.Script(judgetest.Model, fakeengine.Behaviour{Recall: &behaviour})
	url := e.URL + "/v1/chat/completions"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("ask an engine: %v", err)
	}
	defer func() { _ = resp.Body.Close() }() // the body was read
	var out bytes.Buffer
	if _, err := out.ReadFrom(resp.Body); err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	return out.Bytes()
}

func TestWrittenNeedlesComeBackFromAnEngineThatReadsThemAll(t *testing.T) {
	t.Parallel()
	if got := bits(must(t, recall(t, 1, fakeengine.Recall{}, probe.Recall))); got != "D0U0" {
		t.Errorf("got %q, want D0U0", got)
	}
}

func TestAWindowLieShowsInWrittenNeedles(t *testing.T) {
	t.Parallel()
	if got := bits(must(t, recall(t, 2, fakeengine.Recall{WindowTokens: 2_000}, probe.Recall))); got != "D1U0" {
		t.Errorf("got %q, want D1U0", got)
	}
}

func TestAWindowThatClaimsOnlyWhatItReadShowsInUsageToo(t *testing.T) {
	t.Parallel()
	lie := fakeengine.Recall{WindowTokens: 2_000, ClaimWindow: true}
	if got := bits(must(t, recall(t, 3, lie, probe.Recall))); got != "D1U1" {
		t.Errorf("got %q, want D1U1", got)
	}
}

func TestAMeasuringPromptReportsEachNeedle(t *testing.T) {
	t.Parallel()
	j := must(t, recall(t, 4, fakeengine.Recall{WindowTokens: 2_000}, probe.Measure))
	if len(j.Needles) != 16 {
		t.Fatalf("got %d needles, want 16", len(j.Needles))
	}
	for _, n := range j.Needles {
		if n.FromEnd > 1_500 && n.FromEnd < 2_600 {
			continue // tokens of prompts are estimates
		}
		if want := n.FromEnd < 2_000; n.Returned != want {
			t.Errorf("the needle at %d of a window of 2,000: got returned %t, want %t", n.FromEnd, n.Returned, want)
		}
	}
	if got := bits(j); got != "" {
		t.Errorf("got the observations %q, want none", got)
	}
}
