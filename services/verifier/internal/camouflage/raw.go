package camouflage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// raw is the SDK of orders without one.
const raw = "raw"

// Hand returns the body of an order of "raw": what people write without one of the SDKs that
// the suites have. number chooses between the Python libraries, a file for curl, the load of
// package trial, and that of deploy/bench.
func (o Order) Hand(model string, number int) ([]byte, error) {
	switch number % 12 {
	case 0:
		return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"Say something."}]}`, model), nil
	case 1:
		return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"system","content":"Answer briefly."},`+
			`{"role":"user","content":"%016d %s"}],"max_tokens":4096,"temperature":0,"stream":true,`+
			`"stream_options":{"include_usage":true}}`, model, number, filler(512)), nil
	case 2, 3:
		return o.write(model, curlOrder, ",", ": ", "  ")
	case 4, 5, 6:
		return o.write(model, curlOrder, ", ", ": ", "") // json.dumps of Python's library
	default:
		return o.write(model, pythonOrder, ",", ":", "") // OpenAI's library for Python
	}
}

// filler is the text of deploy/bench.
func filler(n int) string {
	const words = "lorem ipsum dolor sit amet consectetur "
	return strings.Repeat(words, n/len(words)+1)[:n]
}

var (
	pythonOrder = []string{"messages", "model", "frequency_penalty", "logprobs", "max_tokens", "presence_penalty", "seed",
		"stream", "stream_options", "temperature", "top_logprobs", "top_p"}
	curlOrder = []string{"model", "messages", "temperature", "max_tokens", "top_p", "frequency_penalty",
		"presence_penalty", "seed", "stream", "stream_options", "logprobs", "top_logprobs"}
)

// write writes the body with the members in an order, and space as a library puts it.
func (o Order) write(model string, names []string, comma, colon, indent string) ([]byte, error) {
	values := map[string]any{"model": model}
	messages, err := o.messages(comma, colon)
	if err != nil {
		return nil, err
	}
	values["messages"] = json.RawMessage(messages)
	o.fill(values)
	var b bytes.Buffer
	b.WriteByte('{')
	for _, name := range names {
		value, there := values[name]
		if !there {
			continue
		}
		text, isText := value.(json.RawMessage)
		if !isText {
			if text, err = json.Marshal(value); err != nil {
				return nil, fmt.Errorf("write a request: %w", err)
			}
		}
		if b.Len() > 1 {
			b.WriteString(comma)
		}
		b.WriteString(`"` + name + `"` + colon)
		b.Write(text)
	}
	b.WriteByte('}')
	if indent == "" {
		return b.Bytes(), nil
	}
	var wide bytes.Buffer
	if err := json.Indent(&wide, b.Bytes(), "", indent); err != nil {
		return nil, fmt.Errorf("write a request: %w", err)
	}
	return append(wide.Bytes(), '\n'), nil
}

// messages returns the messages, with space as a library puts it.
func (o Order) messages(comma, colon string) (string, error) {
	var b strings.Builder
	for _, m := range append(append([]Turn(nil), o.Before...), Turn{"user", o.Prompt}) {
		var content bytes.Buffer
		e := json.NewEncoder(&content)
		e.SetEscapeHTML(false)
		if err := e.Encode(m.Content); err != nil {
			return "", fmt.Errorf("write a message: %w", err)
		}
		if b.Len() > 0 {
			b.WriteString(comma)
		}
		b.WriteString(`{"role"` + colon + `"` + m.Role + `"` + comma + `"content"` + colon +
			strings.TrimSpace(content.String()) + "}")
	}
	return "[" + b.String() + "]", nil
}

// fill adds the parameters.
func (o Order) fill(values map[string]any) {
	if o.MaxTokens > 0 {
		values["max_tokens"] = o.MaxTokens
	}
	if o.Temperature != nil {
		values["temperature"] = *o.Temperature
	}
	if o.TopP != nil {
		values["top_p"] = *o.TopP
	}
	if o.Penalties {
		values["frequency_penalty"], values["presence_penalty"] = 0, 0
	}
	if o.Seed != nil {
		values["seed"] = *o.Seed
	}
	if o.TopLogprobs > 0 {
		values["logprobs"], values["top_logprobs"] = true, o.TopLogprobs
	}
	if o.Op == "stream" {
		values["stream"] = true
		if o.Usage {
			values["stream_options"] = map[string]bool{"include_usage": true}
		}
	}
}
