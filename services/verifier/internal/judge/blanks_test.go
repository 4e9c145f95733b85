package judge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/statistic"
)

// tails are blanks that a provider may put behind every answer.
var tails = map[string]string{
	"a space": " ", "line feeds": "\n\n", "a zero-width space": "\u200b", "a no-break space": "\u00a0",
	"a filler": "\u3164", "a control character": "\x04", "half a character": "\ufffd",
	"several": " \u2060\r\n\ufeff\ufe0f ",
}

// said returns the record of an answer around which a provider puts texts. The reference
// cuts white space off the last message, as the chat templates of models do.
func said(t *testing.T, chat judgetest.Chat, r judge.Record, before, behind string) judge.Record {
	t.Helper()
	var answer map[string]any
	if err := json.Unmarshal(r.Answer.Raw, &answer); err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	message := answer["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
	message["content"] = before + message["content"].(string) + behind
	raw, err := json.Marshal(answer)
	if err != nil {
		t.Fatalf("write an answer: %v", err)
	}
	r.Answer.Raw = raw
	text := message["content"].(string)
	if r.Version == judge.Version {
		if text, _ = judge.Text(raw); text == "" {
			t.Fatal("the answer has no text")
		}
	}
	r.Scores = []judge.Score{{Host: "reference-1", Class: 16, Raw: chat.Scored(t, lab.Base(), strings.TrimSpace(text))}}
	return r
}

// part returns one part of a family, which must say something.
func part(t *testing.T, r judge.Record, f evidence.Family, n int) float64 {
	t.Helper()
	j := must(t, r)
	if len(j.Parts[f]) <= n {
		t.Fatalf("%v: got the parts %v with the void %q, want more than %d", f, j.Parts[f], j.Voids[f], n)
	}
	return j.Parts[f][n]
}

func TestBlanksBehindAnAnswerDoNotKeepItFromBeingJudged(t *testing.T) {
	t.Parallel()
	chat := speaking(t, 12, judgetest.Chat{})
	honest := chat.Record(t, 1, lab.Honest(lab.Base(), 12), lab.Base(), nil)
	for name, blank := range tails {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := must(t, said(t, chat, honest, "", blank))
			for _, f := range []evidence.Family{evidence.Greedy, evidence.Usage} {
				if got := j.Voids[f]; got != statistic.None {
					t.Errorf("%v: got the void %q, want none", f, got)
				}
			}
			if len(j.Parts[evidence.Greedy]) != 1 {
				t.Fatalf("got the parts %v, want one", j.Parts[evidence.Greedy])
			}
		})
	}
}

// The token beside the blanks is not judged, so that the rest says what it said.
func TestBlanksAroundACheatDoNotHideIt(t *testing.T) {
	t.Parallel()
	chat := speaking(t, 13, judgetest.Chat{})
	cheat := chat.Record(t, 1, lab.Smaller(), lab.Base(), nil)
	want := part(t, said(t, chat, cheat, "", ""), evidence.Greedy, 0)
	if got := part(t, said(t, chat, cheat, "\u200b\n", " \u200b"), evidence.Greedy, 0); got < want*.9 {
		t.Errorf("got the part %v, want about %v", got, want)
	}
}

// Evidence of the first version is judged as it was then.
func TestRecordsOfTheFirstVersionAreJudgedByItsRules(t *testing.T) {
	t.Parallel()
	chat := speaking(t, 14, judgetest.Chat{})
	r := chat.Record(t, 1, lab.Honest(lab.Base(), 14), lab.Base(), nil)
	r.Version = 1
	if got := must(t, said(t, chat, r, "", " ")).Voids[evidence.Greedy]; got != statistic.NotJoined {
		t.Errorf("got the void %q, want %q", got, statistic.NotJoined)
	}
}

func TestDeclaredLogprobsAreComparedWithinBlanks(t *testing.T) {
	t.Parallel()
	chat := speaking(t, 15, judgetest.Chat{Logprobs: true})
	honest := chat.Record(t, 1, lab.Honest(lab.Base(), 15), lab.Base(), nil)
	want := part(t, honest, evidence.Logprobs, 0)
	within := said(t, chat, declaring(t, honest, "\n", "\n \n"), "\n", "\n \n")
	if got := part(t, within, evidence.Logprobs, 0); got > 2*want+.01 {
		t.Errorf("got the part %v, want about %v", got, want)
	}
}

// declaring adds tokens to the log-probabilities that an answer declares, one a byte.
func declaring(t *testing.T, r judge.Record, before, behind string) judge.Record {
	t.Helper()
	var answer map[string]any
	if err := json.Unmarshal(r.Answer.Raw, &answer); err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	logprobs := answer["choices"].([]any)[0].(map[string]any)["logprobs"].(map[string]any)
	tokens := func(text string) (all []any) {
		for _, c := range []byte(text) {
			all = append(all, map[string]any{"token": string(c), "logprob": 0, "top_logprobs": []any{
				map[string]any{"token": string(c), "logprob": 0}}})
		}
		return all
	}
	logprobs["content"] = append(append(tokens(before), logprobs["content"].([]any)...), tokens(behind)...)
	raw, err := json.Marshal(answer)
	if err != nil {
		t.Fatalf("write an answer: %v", err)
	}
	r.Answer.Raw = raw
	return r
}

func TestAWholeAnswerOfBlanksIsTheProvidersDoing(t *testing.T) {
	t.Parallel()
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Answer.Raw = []byte(`{"choices":[{"message":{"content":" \u200b\n"},"finish_reason":"stop"}]}`)
	if got := must(t, r).Voids[evidence.Greedy]; got != statistic.Blank {
		t.Errorf("got the void %q, want %q", got, statistic.Blank)
	}
	r.Plan.HangUp, r.Plan.Streamed = 5, true
	if got := must(t, r).Voids[evidence.Greedy]; got != statistic.TooShort {
		t.Errorf("left early: got the void %q, want %q", got, statistic.TooShort)
	}
}

// A marker of the reference's own form within an answer is read as the marker, and so does
// not join.
func TestAnAnswerThatDoesNotJoinIsTheProvidersDoingWhereTheQuestionJoins(t *testing.T) {
	t.Parallel()
	chat := speaking(t, 16, judgetest.Chat{})
	chat.Messages[len(chat.Messages)-1].Text = "Tell me about the sea, the wind and the old lighthouse."
	honest := chat.Record(t, 1, lab.Honest(lab.Base(), 16), lab.Base(), nil)
	r := said(t, chat, honest, "Well,\x04 ", "")
	if got := must(t, r).Voids[evidence.Greedy]; got != statistic.NotJoined {
		t.Errorf("got the void %q, want %q", got, statistic.NotJoined)
	}
	// A reference whose tokens lack their spaces, as of some tokenizers, joins to nothing.
	r.Scores[0].Raw = []byte(strings.ReplaceAll(string(r.Scores[0].Raw), `"decoded_token":" "`, `"decoded_token":""`))
	if got := must(t, r).Voids[evidence.Greedy]; got != statistic.NoReference {
		t.Errorf("a broken reference: got the void %q, want %q", got, statistic.NoReference)
	}
}

// A truncated answer is no whole one because a blank stands behind it.
func TestAnEarlyEndShowsBehindABlank(t *testing.T) {
	t.Parallel()
	r := judgetest.Greedy(t, judgetest.Say{})
	chat := func(text, finish string) []byte {
		raw, err := json.Marshal(map[string]any{"choices": []any{map[string]any{
			"message": map[string]any{"content": text}, "finish_reason": finish}}})
		if err != nil {
			t.Fatalf("write an answer: %v", err)
		}
		return raw
	}
	r.Answer.Raw = chat(judgetest.Answer+" \n", "stop")
	next := func(first string) []byte {
		return []byte(strings.Replace(string(judgetest.Score(judgetest.Answer, 50, -.6, -.8)),
			`"finish_reason":"length"`, `"finish_reason":"length","logprobs":{"content":[{"token":"x","logprob":-9,`+
				`"top_logprobs":[{"token":`+first+`,"logprob":-0.1},{"token":"y","logprob":-9}]}]}`, 1))
	}
	r.Scores[0].Raw = next(`"z"`)
	if got := part(t, r, evidence.Usage, 2); got < 8 {
		t.Errorf("the model went on: got the part %v, want 8.9", got)
	}
	r.Scores[0].Raw = next(`"\n\n"`)
	if got := part(t, r, evidence.Usage, 2); got != 0 {
		t.Errorf("the model went on with a line feed: got the part %v, want 0", got)
	}
}

func TestBlanksCountForFewTokens(t *testing.T) {
	t.Parallel()
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Answer.Raw = []byte(strings.Replace(string(r.Answer.Raw), judgetest.Answer,
		judgetest.Answer+strings.Repeat(` `, 30), 1))
	for claimed, want := range map[int64]float64{24: 0, 28: 0, 54: 54.0/28 - 1} {
		r.Answer.ClaimedOutput = claimed
		if got := part(t, r, evidence.Usage, 1); got != want {
			t.Errorf("%d tokens are claimed: got the part %v, want %v", claimed, got, want)
		}
	}
}

// Honest answers have other parts by other rules.
func TestACalibrationHoldsForItsOwnRules(t *testing.T) {
	t.Parallel()
	r := judgetest.Greedy(t, judgetest.Say{Exceeded: true})
	form, err := calibration.Calibration{
		Stratum: judgetest.Stratum, Family: evidence.Greedy, N: 5_000, Hosts: 2, Whole: 2, Largest: []float64{.1},
	}.Encode()
	if err != nil {
		t.Fatalf("make a calibration: %v", err)
	}
	r.Calibrations = map[string][]byte{evidence.Greedy.String(): form}
	if got := bits(must(t, r)); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	r.Version = 1
	if got := bits(must(t, r)); got != "B1" {
		t.Errorf("a record of its rules: got %q, want B1", got)
	}
}

// Recalls of the second version asked for eight needles, so that honest hosts lost fewer.
func TestACalibrationOfFewerNeedlesDoesNotJudgeARecall(t *testing.T) {
	t.Parallel()
	r := judgetest.Recall(t, judgetest.Say{Exceeded: true})
	form, err := calibration.Calibration{
		Stratum: judgetest.Stratum, Family: evidence.Recall, Rules: 2, N: 5_000, Hosts: 2, Whole: 2,
		Largest: []float64{1},
	}.Encode()
	if err != nil {
		t.Fatalf("make a calibration: %v", err)
	}
	r.Calibrations = map[string][]byte{evidence.Recall.String(): form}
	if got := bits(must(t, r)); got != "" {
		t.Errorf("by rules that asked for eight: got %q, want nothing", got)
	}
	r.Version = 2
	if got := bits(must(t, r)); got != "D1" {
		t.Errorf("a record of its rules: got %q, want D1", got)
	}
}

func TestOnlyARecallThatCountsPasses(t *testing.T) {
	t.Parallel()
	r := judgetest.Recall(t, judgetest.Say{})
	if !must(t, r).Recalled {
		t.Error("a recall that counts: got not passed, want passed")
	}
	uncalibrated := r
	uncalibrated.Calibrations = nil
	if must(t, uncalibrated).Recalled {
		t.Error("a recall that nothing judges: got passed, want not")
	}
	uncalibrated.Version = 1
	if !must(t, uncalibrated).Recalled {
		t.Error("the same in the first version: got not passed, want passed")
	}
}
