package judge_test

import (
	"encoding/json"
	"math"
	"testing"

	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/lab"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
)

// foreign is an answer whose first character has three tokens, of which the first two have
// no text in a reference's list.
const foreign = "\u4040 tens warved wens ramod, are a sithere countt in thove."

// stating returns the record of an answer that the reference's model itself states: the
// log-probabilities are those of the reference.
func stating(t *testing.T, answer string) judge.Record {
	t.Helper()
	model, chat := lab.Base(), judgetest.Chat{Logprobs: true, Messages: lab.NewConversations(31).Next(), MaxTokens: 200}
	r := chat.Record(t, 1, model, model, nil)
	scores, err := model.Score(t.Context(), tinylm.Prompt(chat.Messages), []byte(answer))
	if err != nil {
		t.Fatalf("score an answer: %v", err)
	}
	entry := func(b byte, logprob float64) map[string]any {
		return map[string]any{"token": "", "bytes": []int{int(b)}, "logprob": logprob}
	}
	content := make([]any, len(scores.Answer))
	for i := range scores.Answer {
		p := &scores.Answer[i]
		var top []any
		for _, c := range p.Top(5) {
			top = append(top, entry(c.Byte, c.Logprob))
		}
		one := entry(p.Byte, p.Logprob(p.Byte))
		one["top_logprobs"] = top
		content[i] = one
	}
	r.Answer.Raw, err = json.Marshal(map[string]any{"choices": []any{map[string]any{
		"message": map[string]any{"content": answer}, "finish_reason": "stop",
		"logprobs": map[string]any{"content": content}}},
		"usage": map[string]any{"prompt_tokens": r.Answer.ClaimedPrompt, "completion_tokens": len(answer)}})
	if err != nil {
		t.Fatalf("write an answer: %v", err)
	}
	r.Answer.ClaimedOutput = int64(len(answer))
	r.Scores[0].Raw = judge.Trim(chat.Scored(t, model, answer), answer)
	return r
}

// What is compared are the same tokens. A difference of .05 nats, which the last token of the
// character made beside the first one, hides weights of eight bits in an honest maximum.
func TestACharacterAtTheBeginningIsComparedFromItsFirstTokenOn(t *testing.T) {
	t.Parallel()
	if got := part(t, stating(t, foreign), evidence.Logprobs, 0); got > 1e-4 {
		t.Errorf("distance of equal log-probabilities: got %v, want none", got)
	}
}

func TestACharacterAtTheBeginningIsCountedWithAllItsTokens(t *testing.T) {
	t.Parallel()
	r := stating(t, foreign)
	for part1, what := range []string{"prompt", "answer"} {
		if got := part(t, r, evidence.Usage, part1); math.Abs(got) > 1e-9 {
			t.Errorf("difference of the %s's tokens: got %v, want none", what, got)
		}
	}
}

// Evidence of earlier versions is judged as it was then.
func TestRecordsOfTheSecondVersionBeginWithTheTextOfACharacter(t *testing.T) {
	t.Parallel()
	r := stating(t, foreign)
	r.Version = 2
	if got := part(t, r, evidence.Logprobs, 0); got < .005 {
		t.Errorf("distance: got %v, want that of two other tokens", got)
	}
}
