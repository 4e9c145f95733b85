package openaiapi

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzACompletionIsTheChatOfItsPrompt holds the translation to a reference
// parser: what is accepted becomes a chat that says the same, and nothing else
// in the body changes.
func FuzzACompletionIsTheChatOfItsPrompt(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","prompt":"hi"}`, `{"model":"m","prompt": [ "h\u0069\ud800" ] ,"max_tokens":null}`,
		`{"echo":false,"suffix":"","prompt":"a","logprobs":null,"best_of":2,"n":2,"model":"m","usage":{"include":true}}`,
		`{"stream":true,"stream_options":{},"pr\u006fmpt":"x","model":"m","max_tokens":5,"x":1e400}`,
		`{"model":"m","prompt":["a","b"]}`, `{"x":1, "prompt" : ["a" , "\ud800" ,""],"model":"m","stream":true,"n":2}`,
		`{"model":"m","prompt":[[1]]}`, `{"messages":null,"model":"m","prompt":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Parse(Completion, body)
		if err != nil {
			return
		}
		var before map[string]json.RawMessage
		if err := json.Unmarshal(body, &before); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		prompts := promptsOf(t, before["prompt"])
		split, _ := r.Split()
		if len(split) != len(prompts) {
			t.Fatalf("len(split): got %d, want %d, with %s", len(split), len(prompts), before["prompt"])
		}
		for i, one := range split {
			isTheChatOf(t, one, prompts[i], before)
		}
	})
}

// isTheChatOf holds what is sent of a request to its prompt and to the members of
// the body that it came from.
func isTheChatOf(t *testing.T, r *Request, prompt string, before map[string]json.RawMessage) {
	var after map[string]json.RawMessage
	sent := r.Body("the/id", r.MaxTokens)
	chat, span := sent.Body, sent.Model
	if err := json.Unmarshal(chat, &after); err != nil {
		t.Fatalf("the translation broke the body: %v\n%s", err, chat)
	}
	if got := string(chat[span.Start:span.End]); got != `"the/id"` && r.Model != "the/id" {
		t.Fatalf("the model's span is %q", got)
	}
	var messages []struct{ Role, Content string }
	switch err := json.Unmarshal(after["messages"], &messages); {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case len(messages) != 1:
		t.Fatalf("len(messages): got %d, want 1, with %s", len(messages), before["prompt"])
	case messages[0].Role != "user":
		t.Fatalf(`messages[0].Role: got %q, want "user", with %s`, messages[0].Role, before["prompt"])
	case messages[0].Content != prompt:
		t.Fatalf("messages[0].Content: got %q, want %q, with %s", messages[0].Content, prompt, before["prompt"])
	}
	for name, value := range before {
		switch name {
		case "prompt", "messages", "echo", "suffix", "best_of", "logprobs", "provider", "models", "usage", "model":
		case "max_tokens", "max_completion_tokens", "stream_options":
		default:
			if !bytes.Equal(value, after[name]) {
				t.Fatalf("%q changed: got %q, want %q", name, value, after[name])
			}
		}
	}
	for _, name := range []string{"prompt", "echo", "suffix", "best_of", "logprobs", "provider", "models", "usage"} {
		if _, left := after[name]; left {
			t.Fatalf("%s was sent on: %s", name, chat)
		}
	}
	again, err := Parse(Chat, chat)
	if err != nil {
		t.Fatalf("the chat is refused: %v\n%s", err, chat)
	}
	switch {
	case again.Stream != r.Stream:
		t.Fatalf("again.Stream: got %t, want %t", again.Stream, r.Stream)
	case again.MaxTokens != r.MaxTokens:
		t.Fatalf("again.MaxTokens: got %d, want %d", again.MaxTokens, r.MaxTokens)
	case again.Choices != r.Choices:
		t.Fatalf("again.Choices: got %d, want %d", again.Choices, r.Choices)
	case again.PromptTokens != r.PromptTokens:
		t.Fatalf("again.PromptTokens: got %d, want %d", again.PromptTokens, r.PromptTokens)
	case again.Logprobs != r.Logprobs:
		t.Fatalf("again.Logprobs: got %t, want %t", again.Logprobs, r.Logprobs)
	case r.Stream && !again.IncludeUsage:
		t.Fatal("again.IncludeUsage: got false, want true, where r.Stream")
	}
}

func promptsOf(t *testing.T, raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var several []string
	if err := json.Unmarshal(raw, &several); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if len(several) == 0 || len(several) > MaxPrompts {
		t.Fatalf("len(several): got %d, want 1 to %d, with %s", len(several), MaxPrompts, raw)
	}
	return several
}

// FuzzEmbeddingsAgreeWithEncodingJSON: the inputs counted are the inputs that a
// reference parser sees.
func FuzzEmbeddingsAgreeWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		input(`"a"`), input(`["a","b"],"encoding_format":"base64"`), input(`[1,2e1]`), input(`[[1],[2,3]],"dimensions":5`),
		input(`["a",[1]]`), input(`[[]]`), `{"Input":"x","model":"m","input":"y"}`, `{"usage":{},"model":"m","input":"` +
			"\xff" + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Parse(Embeddings, body)
		if err != nil {
			return
		}
		var want struct {
			Model  string `json:"model"`
			Input  any    `json:"input"`
			Format string `json:"encoding_format"`
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		inputs, tokens := int64(1), int64(0)
		if list, ok := want.Input.([]any); ok {
			switch list[0].(type) {
			case float64:
				tokens = int64(len(list))
			default:
				inputs = int64(len(list))
			}
			for _, entry := range list {
				if ids, ok := entry.([]any); ok {
					tokens += int64(len(ids))
				}
			}
		}
		switch {
		case r.Model != want.Model:
			t.Fatalf("understood: r.Model: got %q, want %q", r.Model, want.Model)
		case r.Inputs != inputs:
			t.Fatalf("understood: r.Inputs: got %d, want %d", r.Inputs, inputs)
		case r.Base64 != (want.Format == "base64"):
			t.Fatalf("understood: r.Base64: got %t, want %t", r.Base64, want.Format == "base64")
		case tokens > 0 && r.PromptTokens != tokens:
			t.Fatalf("understood: r.PromptTokens: got %d, want %d, where tokens > 0", r.PromptTokens, tokens)
		case r.LargestTokens > r.PromptTokens:
			t.Fatalf("understood: r.LargestTokens: got %d, want at most %d", r.LargestTokens, r.PromptTokens)
		}
		patched := r.Body("the/id", 7).Body
		checkPatched(t, body, patched, false)
	})
}

// FuzzImagesAgreeWithEncodingJSON: so many images are held as a reference parser
// sees asked for.
func FuzzImagesAgreeWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		picture(`"n":3,"size":"1024x1024"`), picture(`"stream":true,"partial_images":2`), picture(`"N":3`),
		picture(`"n":1e1,"provider":{}`),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Parse(Images, body)
		if err != nil {
			return
		}
		var want struct {
			Model  string  `json:"model"`
			Prompt string  `json:"prompt"`
			N      float64 `json:"n"`
			Stream bool    `json:"stream"`
		}
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		switch {
		case r.Model != want.Model:
			t.Fatalf("understood: r.Model: got %q, want %q", r.Model, want.Model)
		case want.Prompt == "":
			t.Fatal(`understood: want.Prompt: got "", want some text`)
		case float64(r.Choices) != max(1, want.N):
			t.Fatalf("understood: r.Choices: got %v, want %v", float64(r.Choices), max(1, want.N))
		case r.Stream != want.Stream:
			t.Fatalf("understood: r.Stream: got %t, want %t", r.Stream, want.Stream)
		}
		patched := r.Body("the/id", 7).Body
		checkPatched(t, body, patched, false)
	})
}
