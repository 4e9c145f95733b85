package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Parameters are what a probe asks of the engine beside its messages.
type Parameters struct {
	Model     string
	MaxTokens int
	// Temperature and TopP are not written when they are nil.
	Temperature, TopP *float64
	Seed              *int64
	// TopLogprobs asks for log-probabilities of so many tokens; 0 asks for none.
	TopLogprobs int
	Stream      bool
	// IncludeUsage asks for usage in a stream.
	IncludeUsage bool
}

// layout is how a client library lays out a request: the order of its members and the
// space between them. Providers see the consumer's own bytes, so that a single layout
// would betray every probe.
type layout struct {
	members []string
	indent  string
}

// layouts are those of common clients, the frequent ones several times: two official SDKs,
// a Go client, and people with curl.
var layouts = []layout{
	{members: pythonOrder}, {members: pythonOrder}, {members: pythonOrder},
	{members: nodeOrder}, {members: nodeOrder},
	{members: goOrder},
	{members: nodeOrder, indent: "  "}, {members: nodeOrder, indent: "    "},
}

var (
	pythonOrder = []string{"messages", "model", "logprobs", "max_tokens", "seed", "stream", "stream_options",
		"temperature", "top_logprobs", "top_p"}
	nodeOrder = []string{"model", "messages", "temperature", "top_p", "max_tokens", "seed", "logprobs",
		"top_logprobs", "stream", "stream_options"}
	goOrder = []string{"model", "messages", "max_tokens", "temperature", "top_p", "stream", "stream_options", "seed",
		"logprobs", "top_logprobs"}
)

// Body returns the request of a probe as one of the common clients would write it.
func (w *Writer) Body(id ID, messages []Message, p Parameters) ([]byte, error) {
	dice := w.dice("layout", id)
	chosen := layouts[dice.IntN(len(layouts))]
	values, err := members(messages, p)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for _, name := range chosen.members {
		value, there := values[name]
		if !there {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(name) + ":")
		b.Write(value)
	}
	b.WriteByte('}')
	if chosen.indent == "" {
		return b.Bytes(), nil
	}
	var wide bytes.Buffer
	if err := json.Indent(&wide, b.Bytes(), "", chosen.indent); err != nil {
		return nil, fmt.Errorf("indent a probe: %w", err)
	}
	return wide.Bytes(), nil
}

// members returns the members of the request that are asked for, as JSON.
func members(messages []Message, p Parameters) (map[string][]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	said := make([]message, len(messages))
	for i, m := range messages {
		said[i] = message(m)
	}
	asked := map[string]any{"model": p.Model, "messages": said, "max_tokens": p.MaxTokens}
	if p.Temperature != nil {
		asked["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		asked["top_p"] = *p.TopP
	}
	if p.Seed != nil {
		asked["seed"] = *p.Seed
	}
	if p.TopLogprobs > 0 {
		asked["logprobs"], asked["top_logprobs"] = true, p.TopLogprobs
	}
	if p.Stream {
		asked["stream"] = true
		if p.IncludeUsage {
			asked["stream_options"] = map[string]bool{"include_usage": true}
		}
	}
	values := make(map[string][]byte, len(asked))
	for name, value := range asked {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // no client does
		if err := e.Encode(value); err != nil {
			return nil, fmt.Errorf("write the member %s of a probe: %w", name, err)
		}
		values[name] = bytes.TrimRight(b.Bytes(), "\n")
	}
	return values, nil
}
