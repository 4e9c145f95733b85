package prompt

import "encoding/json"

// Body returns the request of a probe as one of the common clients would write it.
func (w *Writer) Body(id ID, messages []Message, p Parameters) ([]byte, error) {
	l := layoutFor(w.dice("layout", id), p)
	said, err := l.messages(messages)
	if err != nil {
		return nil, err
	}
	values := map[string]json.RawMessage{"messages": said}
	for name, value := range p.members(l) {
		if values[name], err = plain(value); err != nil {
			return nil, err
		}
	}
	return l.body(values)
}

// members returns the members beside the messages that are asked for.
func (p Parameters) members(l layout) map[string]any {
	asked := map[string]any{"model": p.Model}
	if p.MaxTokens > 0 {
		asked["max_tokens"] = p.MaxTokens
	}
	if p.Temperature != nil {
		asked["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		asked["top_p"] = *p.TopP
	}
	if p.Penalties {
		asked["frequency_penalty"], asked["presence_penalty"] = 0, 0
	}
	if p.Seed != nil {
		asked["seed"] = *p.Seed
	}
	if p.TopLogprobs > 0 {
		asked["logprobs"], asked["top_logprobs"] = true, p.TopLogprobs
	}
	if p.Stream || l.saysWhole {
		asked["stream"] = p.Stream
	}
	if p.Stream && p.IncludeUsage {
		asked["stream_options"] = map[string]bool{"include_usage": true}
	}
	return asked
}
