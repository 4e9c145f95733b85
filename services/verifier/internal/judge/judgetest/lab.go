package judgetest

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc.internal/pkg/tinylm"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
)

// Ask sends a body to a model's API and returns what it answers. The answer must be 200.
func Ask(t testing.TB, m *tinylm.Model, body any) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	server := tinylm.NewServer(m, tinylm.Options{ModelName: Model, Random: func() uint64 { return 7 }})
	server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", //nolint:noctx // answered at once
		strings.NewReader(string(encode(t, body)))))
	if w.Code != http.StatusOK {
		t.Fatalf("the model answered %d: %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// Chat is a request of a laboratory probe.
type Chat struct {
	Messages []tinylm.Message
	// Seed samples at temperature 1; without one the answer is greedy.
	Seed *int64
	// Logprobs asks for five log-probabilities, Stream for a stream.
	Logprobs, Stream bool
	MaxTokens        int
}

func (c Chat) body() map[string]any {
	var messages []map[string]any
	for _, m := range c.Messages {
		messages = append(messages, map[string]any{"role": string(m.Role), "content": m.Text})
	}
	b := map[string]any{"model": Model, "messages": messages, "max_tokens": c.MaxTokens, "temperature": 0}
	if c.Seed != nil {
		b["temperature"], b["top_p"], b["seed"] = 1, 1, *c.Seed
	}
	if c.Logprobs {
		b["logprobs"], b["top_logprobs"] = true, 5
	}
	if c.Stream {
		b["stream"], b["stream_options"] = true, map[string]any{"include_usage": true}
	}
	return b
}

// Scored returns a reference's score of an answer, as the verifier asks for it.
func (c Chat) Scored(t testing.TB, reference *tinylm.Model, answer string) []byte {
	t.Helper()
	b := Chat{Messages: append(append([]tinylm.Message{}, c.Messages...),
		tinylm.Message{Role: tinylm.RoleAssistant, Text: answer}), MaxTokens: 1}.body()
	b["continue_final_message"], b["add_generation_prompt"], b["prompt_logprobs"] = true, false, 20
	return Ask(t, reference, b)
}

// Record asks a provider and lets references score the answer: the model's own, and others
// by the alternative that they stand for.
func (c Chat) Record(t testing.TB, n int, provider, reference *tinylm.Model,
	others map[evidence.Alternative]*tinylm.Model,
) judge.Record {
	t.Helper()
	kind := probe.Greedy
	switch {
	case c.Logprobs:
		kind = probe.Logprobs
	case c.Seed != nil:
		kind = probe.Sampled
	}
	r := record(t, Say{N: n}, kind, evidence.Greedy)
	r.Plan.Greedy, r.Plan.Streamed, r.Plan.MaxTokens = c.Seed == nil, c.Stream, c.MaxTokens
	if c.Logprobs {
		r.Plan.TopLogprobs = 5
	}
	r.Request = encode(t, c.body())
	r.Answer.Raw = Ask(t, provider, c.body())
	text, v := judge.Text(r.Answer.Raw)
	if v != "" {
		t.Fatalf("the answer has no text: %v", v)
	}
	r.Answer.ClaimedPrompt, r.Answer.ClaimedOutput = Claims(t, r.Answer.Raw)
	if text == "" {
		return r
	}
	r.Scores = []judge.Score{{Host: "reference-1", Class: 16, Raw: judge.Trim(c.Scored(t, reference, text), text)}}
	for g := range evidence.Alternative(evidence.Alternatives) {
		if other, ok := others[g]; ok {
			r.Plan.Alternatives = append(r.Plan.Alternatives, g)
			r.Scores = append(r.Scores, judge.Score{Host: "reference-1", Alternative: g.String(),
				Raw: judge.Trim(c.Scored(t, other, text), text)})
		}
	}
	if c.Seed != nil {
		r.Plan.Alternatives = append(r.Plan.Alternatives, evidence.Cooler, evidence.Hotter)
	}
	return r
}

// Claims returns the usage that an answer states, whole or streamed.
func Claims(t testing.TB, raw []byte) (prompt, output int64) {
	t.Helper()
	at := strings.LastIndex(string(raw), `"usage":{`)
	if at < 0 {
		t.Fatalf("an answer states no usage: %.200s", raw)
	}
	var u struct {
		Prompt int64 `json:"prompt_tokens"`
		Output int64 `json:"completion_tokens"`
	}
	text := string(raw)[at+len(`"usage":`):]
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&u); err != nil {
		t.Fatalf("read usage: %v", err)
	}
	return u.Prompt, u.Output
}

// Largest returns the largest parts of judgements, for a calibration.
func Largest(t testing.TB, f evidence.Family, k int, records []judge.Record) []float64 {
	t.Helper()
	largest := make([]float64, k)
	for _, r := range records {
		j, err := judge.Judge(r)
		if err != nil {
			t.Fatalf("judge an honest record: %v", err)
		}
		for i, p := range j.Parts[f] {
			largest[i] = math.Max(largest[i], p)
		}
	}
	return largest
}
