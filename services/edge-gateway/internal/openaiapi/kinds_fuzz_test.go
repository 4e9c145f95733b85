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
			t.Fatalf("%d requests of the prompts %s", len(split), before["prompt"])
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
	sent := r.Body(nil, "the/id", r.MaxTokens)
	chat, span := sent.Body, sent.Model
	if err := json.Unmarshal(chat, &after); err != nil {
		t.Fatalf("the translation broke the body: %v\n%s", err, chat)
	}
	if got := string(chat[span.Start:span.End]); got != `"the/id"` && r.Model != "the/id" {
		t.Fatalf("the model's span is %q", got)
	}
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal(after["messages"], &messages); err != nil || len(messages) != 1 ||
		messages[0].Role != "user" || messages[0].Content != prompt {
		t.Fatalf("%s became %s", before["prompt"], after["messages"])
	}
	for name, value := range before {
		switch name {
		case "prompt", "messages", "echo", "suffix", "best_of", "logprobs", "provider", "models", "usage", "model":
		case "max_tokens", "max_completion_tokens", "stream_options":
		default:
			if !bytes.Equal(value, after[name]) {
				t.Fatalf("%q changed from %s to %s", name, value, after[name])
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
	if again.Stream != r.Stream || again.MaxTokens != r.MaxTokens || again.Choices != r.Choices ||
		again.PromptTokens != r.PromptTokens || again.Logprobs != r.Logprobs || r.Stream && !again.IncludeUsage {
		t.Fatalf("%+v became the chat %+v", r, again)
	}
}

func promptsOf(t *testing.T, raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var several []string
	if err := json.Unmarshal(raw, &several); err != nil || len(several) == 0 || len(several) > MaxPrompts {
		t.Fatalf("accepted the prompt %s", raw)
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
		if r.Model != want.Model || r.Inputs != inputs || r.Base64 != (want.Format == "base64") || tokens > 0 &&
			r.PromptTokens != tokens ||
			r.LargestTokens > r.PromptTokens {
			t.Fatalf("understood %+v, encoding/json %+v", r, want)
		}
		patched := r.Body(nil, "the/id", 7).Body
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
		if r.Model != want.Model || want.Prompt == "" || float64(r.Choices) != max(1, want.N) || r.Stream != want.Stream {
			t.Fatalf("understood %+v, encoding/json %+v", r, want)
		}
		patched := r.Body(nil, "the/id", 7).Body
		checkPatched(t, body, patched, false)
	})
}
