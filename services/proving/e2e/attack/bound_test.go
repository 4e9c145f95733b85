package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// endless is how many words the engines of F1 can say.
const endless = 3000

// mark is the most that comes of one choice whose bill has a bound: 16 certain tokens
// more. The certain count is the recount over 1.3 for ASCII.
func mark(bound int) int { return (bound+16)*13/10 + 1 }

// bounds are F1: the bill has a bound that the answer does not have.
func bounds() []Case {
	ask := func(rule lengthRule, maxOutput, bound int, members string) func(t testing.TB, s *stage) Outcome {
		return func(t testing.TB, s *stage) Outcome {
			id := s.put(t, model{maxOutput: maxOutput})
			engine := newLengthEngine(t, rule, endless, id)
			p := s.Join(t, s.title(), engine.url, id)
			_, key := s.caller(t)
			r := s.chat(t, key, trial.Chat(id, members+`,"stream":true`))
			b := s.bill(t, key, r.id())
			whole := s.chat(t, key, trial.Chat(id, members))
			wholeBill := s.bill(t, key, whole.id())
			if got, want := r.words(), mark(bound); got > want {
				t.Errorf("got %d tokens streamed for a bill of %d, want at most %d", got, b.completion, want)
			}
			if got, want := whole.words(), mark(bound); got > want {
				t.Errorf("got %d tokens in a whole answer for a bill of %d, want at most %d", got, wholeBill.completion, want)
			}
			if r.status != http.StatusOK || r.finish != "length" {
				t.Errorf("the stream that is cut: got %d, finish_reason %q, want 200 and length", r.status, r.finish)
			}
			if whole.failed && wholeBill.status != "released" {
				t.Errorf("a refused answer: got a bill of %v, want none", wholeBill)
			}
			return Outcome{
				Got:  fmt.Sprintf("%d streamed, %d whole (%d)", r.words(), whole.words(), whole.status),
				Paid: fmt.Sprintf("%d and %d", b.completion, wholeBill.completion),
				Harm: fmt.Sprintf("%s unpaid for %d", short(p), max(0, r.words()-b.completion)+
					max(0, whole.words()-wholeBill.completion)),
			}
		}
	}
	knows := lengthRule{"max_tokens", func(f fields) (int, int, error) { return f.first("max_tokens"), 0, nil }}
	return []Case{
		{Hole: "F1", Name: "max_completion_tokens", Before: "3,000 delivered, 1 billed",
			Run: ask(knows, 0, 1, `,"max_completion_tokens":1`)},
		{Hole: "F1", Name: "n_predict", Before: "3,000 delivered, 1 billed", Run: ask(fourEngines[2], 0, 1,
			`,"max_tokens":1,"n_predict":3000`)},
		{Hole: "F1", Name: "max_new_tokens", Before: "3,000 delivered, 1 billed", Run: ask(vendor("max_new_tokens"), 0, 1,
			`,"max_tokens":1,"max_new_tokens":3000`)},
		{Hole: "F1", Name: "num_predict", Before: "3,000 delivered, 1 billed", Run: ask(vendor("num_predict"), 0, 1,
			`,"max_tokens":1,"num_predict":3000`)},
		{Hole: "F1", Name: "no_bound", Before: "3,000 delivered, 16 billed", Run: ask(knows, 16, 16, ``)},
		{Hole: "F1", Name: "honest_answers_pass", Before: "passes", Run: honestAnswersPass},
	}
}

func short(p *trial.Provider) string { return "provider " + p.ID[max(0, len(p.ID)-4):] }

// honestAnswersPass shows that the cut costs honest providers nothing: answers as long as
// their bound come whole, in scripts and texts that the recount misjudges.
func honestAnswersPass(t testing.TB, s *stage) Outcome {
	const tokens = 200
	texts := map[string]string{
		"words":  " quick", // one token each
		"digits": "739",
		"thai":   "ครับ", // four of the recount, as long as tokens of ordinary Thai are
		"cjk":    "你好吗",
		"emoji":  "🙂",
	}
	whole := 0
	for name, token := range texts {
		pieces := make([]string, tokens)
		for i := range pieces {
			pieces[i] = token
		}
		id, _, _ := s.served(t, model{}, fakeengine.Behaviour{Tokens: pieces, FinishReason: "length"})
		_, key := s.caller(t)
		for _, stream := range []string{"", `,"stream":true`} {
			r := s.chat(t, key, trial.Chat(id, fmt.Sprintf(`,"max_tokens":%d`, tokens)+stream))
			if r.failed || r.text != strings.Repeat(token, tokens) {
				t.Errorf("%s%s: got %d with %d of %d bytes, want the whole answer", name, stream, r.status, len(r.text),
					tokens*len(token))
				continue
			}
			whole++
		}
	}
	return Outcome{Got: fmt.Sprintf("%d of %d honest answers whole", whole, 2*len(texts)), Paid: "their bound",
		Harm: "none"}
}

// empties are F2: deliveries beside the content.
func empties() []Case {
	ask := func(members, message, choice string, claimed int) func(t testing.TB, s *stage) Outcome {
		return func(t testing.TB, s *stage) Outcome {
			body := fmt.Sprintf(
				`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
					`"message":{"role":"assistant",%s},%s}],`+
					`"usage":{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}}`, message, choice, claimed, claimed+7)
			id, _, p := s.served(t, model{}, fakeengine.Behaviour{Raw: body, ContentType: "application/json"})
			_, key := s.caller(t)
			r := s.chat(t, key, trial.Chat(id, members))
			b := s.bill(t, key, r.id())
			if r.status != http.StatusOK {
				t.Errorf("got %d, want the answer: %s", r.status, trial.Tail(r.body, 200))
			}
			if b.prompt == 0 || b.completion == 0 {
				t.Errorf("got %d bytes of an answer for %v, want prompt and at least one token billed", len(r.body), b)
			}
			return Outcome{Got: fmt.Sprintf("%d bytes", len(r.body)), Paid: b.String(), Harm: short(p) + " paid by that"}
		}
	}
	token := `{"token":"word","logprob":-0.1,"bytes":null,"top_logprobs":[]}`
	logprobs := `"logprobs":{"content":[` + strings.Repeat(token+",", 299) + token + `]},"finish_reason":"length"`
	return []Case{
		{Hole: "F2", Name: "logprobs", Before: "300 tokens as logprobs, nothing billed",
			Run: ask(`,"logprobs":true,"max_tokens":300`, `"content":""`, logprobs, 300)},
		{Hole: "F2", Name: "reasoning_details", Before: "2,400 characters, nothing billed",
			Run: ask(``, `"content":"","reasoning_details":[{"type":"reasoning.text","text":"`+strings.Repeat("thinking hard ",
				170)+`"}]`, `"finish_reason":"stop"`, 400)},
		{Hole: "F2", Name: "vendor_member", Before: "2,400 characters, nothing billed",
			Run: ask(``, `"content":"","acme_answer":"`+strings.Repeat("the answer is ", 170)+`"`, `"finish_reason":"stop"`,
				400)},
		{Hole: "F2", Name: "picture", Before: "a picture, nothing billed, its provider blamed",
			Run: ask(``, `"content":"","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+
				strings.Repeat("iVBORw0K", 300)+`"}}]`, `"finish_reason":"stop"`, 1)},
		{Hole: "F2", Name: "sound", Before: "sound, nothing billed, its provider blamed",
			Run: ask(``, `"content":null,"audio":{"id":"a","data":"`+strings.Repeat("UklGRiQA", 300)+`"}`,
				`"finish_reason":"stop"`, 1)},
		{Hole: "F2", Name: "requested_stop", Before: "nothing billed",
			Run: ask(`,"stop":["x"]`, `"content":""`, `"finish_reason":"stop"`, 3)},
	}
}
