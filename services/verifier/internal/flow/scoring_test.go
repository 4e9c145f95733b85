package flow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/probe"
)

// catalog names files.
type catalog struct{ files []flow.File }

func (c catalog) Files(context.Context, string) ([]flow.File, error) { return c.files, nil }

func TestAScoringBodyAsksForTheAnswerAsItStands(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tokens int
		want   float64
	}{{300, 20}, {4_000, 20}, {4_001, 1}, {32_600, 1}, {32_700, -1}} {
		p := probe.Plan{PromptTokens: tc.tokens, MaxTokens: 96, BytesPerToken: 4}
		const request = `{"model":"m","messages":[{"role":"user","content":"a<b\u00e4"}],"stream":true,"seed":5}`
		raw, err := flow.ScoringBody(p, []byte(request), "x <|end|> \"\n")
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		messages := got["messages"].([]any)
		last := messages[len(messages)-1].(map[string]any)
		for what, ok := range map[string]bool{
			"prompt_logprobs": tc.want < 0 && got["prompt_logprobs"] == nil || got["prompt_logprobs"] == tc.want,
			"continues":       got["continue_final_message"] == true, "no new turn": got["add_generation_prompt"] == false,
			"one token": got["max_tokens"] == 1.0, "greedy": got["temperature"] == 0.0, "not streamed": got["stream"] == nil,
			"the answer": last["role"] == "assistant" && last["content"] == "x <|end|> \"\n", "two messages": len(messages) == 2,
		} {
			if !ok {
				t.Errorf("%d tokens: %s is not as it must be in %s", tc.tokens, what, raw)
			}
		}
	}
	for _, bad := range []string{"", "[]", "{}", `{"messages":[]}`, `{"messages":1}`} {
		if _, err := flow.ScoringBody(probe.Plan{}, []byte(bad), "x"); err == nil {
			t.Errorf("%q: got no error, want one", bad)
		}
	}
}

func TestARequestKeepsAllButItsModelOrItsStream(t *testing.T) {
	t.Parallel()
	const body = `{ "seed":12345678901234567, "model" : "a/b","stream":true,"stream_options":{"a":true},"x":[1]}`
	named, err := flow.WithModel([]byte(body), "a/b", "c\"d")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(named), strings.Replace(body, `"a/b"`, `"c\"d"`, 1); got != want {
		t.Errorf("another model: got %s, want %s", got, want)
	}
	whole, err := flow.Unstreamed([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(whole), `{"seed":12345678901234567,"model":"a/b","x":[1]}`; got != want {
		t.Errorf("not streamed: got %s, want %s", got, want)
	}
	if _, err := flow.WithModel([]byte(`{"x":1}`), "a", "b"); err == nil {
		t.Error("a body without a model: got no error, want one")
	}
}

func FuzzFramedEndsAndIsBounded(f *testing.F) {
	f.Add([]byte(`{"a":1}{"b":2}`))
	f.Add([]byte("{\"a\":\n1} [1] null"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		const limit = 4_096
		events, _ := flow.Framed(raw, limit)
		if len(events) > limit {
			t.Errorf("bytes: got %d, want at most %d", len(events), limit)
		}
		again, _ := flow.Framed(raw, limit)
		if string(events) != string(again) {
			t.Error("the second time: got other events")
		}
	})
}
