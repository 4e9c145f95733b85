package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/verifier/internal/probe"
)

// The prompts, in tokens, up to which a reference is asked for log-probabilities of twenty
// tokens a position, and of one. An answer holds 12 MiB.
const (
	manyLogprobs    = 4_096
	singleLogprobs  = 32_768
	topLogprobs     = 20
	usualTokenBytes = 4
)

var errNoMessages = errors.New("the request has no messages")

// scoringBody is what a reference is asked: the provider's request with its answer as the
// last message, which a reference reads and does not write. The one token that it must
// write has log-probabilities, which tell whether the answer ended where it should.
func scoringBody(plan probe.Plan, request []byte, answer string) ([]byte, error) {
	var asked struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(request, &asked); err != nil {
		return nil, fmt.Errorf("read a request: %w", err)
	}
	if len(asked.Messages) == 0 {
		return nil, errNoMessages
	}
	last, err := plainJSON(map[string]string{"role": "assistant", "content": answer})
	if err != nil {
		return nil, fmt.Errorf("write an answer to be scored: %w", err)
	}
	body := map[string]any{
		"model": asked.Model, "messages": append(asked.Messages, last), "continue_final_message": true,
		"add_generation_prompt": false, "max_tokens": 1, "temperature": 0, "logprobs": true,
		"top_logprobs": topLogprobs,
	}
	switch tokens := promptTokens(plan, request); {
	case tokens <= manyLogprobs:
		body["prompt_logprobs"] = topLogprobs
	case tokens <= singleLogprobs:
		body["prompt_logprobs"] = 1
	}
	return plainJSON(body)
}

// promptTokens is about how many tokens prompt and answer have: what the plan wants, or
// what the request's bytes are likely to be, whichever is more.
func promptTokens(plan probe.Plan, request []byte) int {
	ratio := plan.BytesPerToken
	if !(ratio >= 1.0/16 && ratio <= 64) {
		ratio = usualTokenBytes
	}
	return max(plan.PromptTokens, int(float64(len(request))/ratio)) + plan.MaxTokens
}

// plainJSON encodes without the escapes that are for HTML.
func plainJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// withModel returns a body that names another model.
func withModel(body []byte, from, to string) ([]byte, error) {
	if from == to {
		return body, nil
	}
	for m, err := range jsonscan.New(body, jsonscan.Options{}).Members() {
		if err != nil {
			return nil, fmt.Errorf("read a request: %w", err)
		}
		if string(m.Key.Name(body)) != "model" {
			continue
		}
		named := append([]byte(nil), body[:m.Value.Start]...)
		return append(jsonscan.AppendString(named, to), body[m.Value.End:]...), nil
	}
	return nil, errors.New("the request names no model")
}

// unstreamed returns a request whose answer is not streamed, so that it states its usage.
func unstreamed(body []byte) ([]byte, error) {
	out := []byte{'{'}
	for m, err := range jsonscan.New(body, jsonscan.Options{}).Members() {
		if err != nil {
			return nil, fmt.Errorf("read a request: %w", err)
		}
		name := string(m.Key.Name(body))
		if name == "stream" || name == "stream_options" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonscan.AppendString(out, name), ':')
		out = append(out, m.Value.Of(body)...)
	}
	return append(out, '}'), nil
}
