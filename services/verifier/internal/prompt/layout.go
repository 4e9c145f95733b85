package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Parameters are what a probe asks of the engine beside its messages.
type Parameters struct {
	Model string
	// MaxTokens bounds the answer; 0 says no bound.
	MaxTokens int
	// Temperature and TopP are not written when they are nil.
	Temperature, TopP *float64
	Seed              *int64
	// Penalties says both penalties as 0, as code does that a playground wrote.
	Penalties bool
	// TopLogprobs asks for log-probabilities of so many tokens; 0 asks for none.
	TopLogprobs int
	Stream      bool
	// IncludeUsage asks for usage in a stream.
	IncludeUsage bool
}

// layout is how a client library lays out a request: the order of its members, the space
// between them, and what it says although nobody asked. Providers see the consumer's own
// bytes, so that a single layout would betray every probe. The layouts are those that
// services/proving/e2e records of the libraries.
type layout struct {
	members []string
	// often is how many of a hundred requests are laid out so.
	often int
	// comma and colon have the space that stands behind them. indent is that of each line,
	// and newline ends the body.
	comma, colon, indent string
	newline              bool
	// contentFirst writes a message's content before its role, and saysWhole says of an
	// answer that is not streamed that it is not.
	contentFirst, saysWhole bool
	// noZero and noLogprobs are for libraries that leave a temperature of 0, and
	// log-probabilities, out.
	noZero, noLogprobs bool
	// escapes is for libraries that escape <, > and & as for HTML, which Go's do.
	escapes bool
}

// fits reports whether the library sends such parameters.
func (l layout) fits(p Parameters) bool {
	zero := p.Temperature != nil && *p.Temperature == 0
	return (!l.noZero || !zero) && (!l.noLogprobs || p.TopLogprobs == 0)
}

var layouts = []layout{
	{members: pythonOrder, often: 12, comma: ",", colon: ":"},
	{members: nodeOrder, often: 26, comma: ",", colon: ":"},
	{members: playgroundOrder, often: 13, comma: ",", colon: ":"},
	{members: aiOrder, often: 12, comma: ",", colon: ":", noLogprobs: true},
	{members: chainOrder, often: 10, comma: ",", colon: ":", saysWhole: true},
	{members: officialGoOrder, often: 8, comma: ",", colon: ":", contentFirst: true, escapes: true},
	{members: goOrder, often: 8, comma: ",", colon: ":", noZero: true, escapes: true},
	{members: handOrder, often: 6, comma: ", ", colon: ": "},
	{members: handOrder, often: 10, indent: "  ", newline: true},
	{members: handOrder, often: 1, indent: "    "},
}

// The orders of members: OpenAI's libraries for Python, node and Go, the code that its
// playground writes, the AI SDK, LangChain, go-openai, and people.
var (
	pythonOrder = []string{"messages", "model", "frequency_penalty", "logprobs", "max_tokens", "presence_penalty",
		"seed", "stream", "stream_options", "temperature", "top_logprobs", "top_p"}
	nodeOrder = []string{"model", "messages", "max_tokens", "temperature", "top_p", "frequency_penalty",
		"presence_penalty", "seed", "logprobs", "top_logprobs", "stream", "stream_options"}
	playgroundOrder = []string{"model", "messages", "temperature", "max_tokens", "top_p", "frequency_penalty",
		"presence_penalty", "seed", "logprobs", "top_logprobs", "stream", "stream_options"}
	aiOrder = []string{"model", "max_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty", "seed",
		"messages", "stream", "stream_options"}
	chainOrder = []string{"model", "temperature", "top_p", "frequency_penalty", "presence_penalty", "logprobs",
		"top_logprobs", "stream", "stream_options", "max_tokens", "seed", "messages"}
	officialGoOrder = []string{"messages", "model", "frequency_penalty", "logprobs", "max_tokens", "presence_penalty",
		"seed", "temperature", "top_logprobs", "top_p", "stream_options", "stream"}
	goOrder = []string{"model", "messages", "max_tokens", "temperature", "top_p", "stream", "presence_penalty", "seed",
		"frequency_penalty", "logprobs", "top_logprobs", "stream_options"}
	handOrder = []string{"model", "messages", "temperature", "max_tokens", "top_p", "frequency_penalty",
		"presence_penalty", "seed", "stream", "stream_options", "logprobs", "top_logprobs"}
)

// layoutFor draws a layout of a library that sends such parameters.
func layoutFor(dice *rand.Rand, p Parameters) layout {
	total := 0
	for _, l := range layouts {
		if l.fits(p) {
			total += l.often
		}
	}
	at := dice.IntN(total)
	for _, l := range layouts {
		if !l.fits(p) {
			continue
		}
		if at -= l.often; at < 0 {
			return l
		}
	}
	return layouts[0] // not reached: one of them fits
}

// body joins members.
func (l layout) body(values map[string]json.RawMessage) ([]byte, error) {
	comma, colon := l.comma, l.colon
	if l.indent != "" {
		comma, colon = ",", ":"
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for _, name := range l.members {
		value, there := values[name]
		if !there {
			continue
		}
		if b.Len() > 1 {
			b.WriteString(comma)
		}
		b.WriteString(strconv.Quote(name) + colon)
		b.Write(value)
	}
	b.WriteByte('}')
	if l.indent != "" {
		var wide bytes.Buffer
		if err := json.Indent(&wide, b.Bytes(), "", l.indent); err != nil {
			return nil, fmt.Errorf("indent a probe: %w", err)
		}
		b = wide
	}
	if l.newline {
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// messages writes the messages.
func (l layout) messages(messages []Message) (json.RawMessage, error) {
	comma, colon := l.comma, l.colon
	if l.indent != "" {
		comma, colon = ",", ":"
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i, m := range messages {
		if i > 0 {
			b.WriteString(comma)
		}
		content, err := l.text(m.Content)
		if err != nil {
			return nil, err
		}
		role := `"role"` + colon + strconv.Quote(m.Role)
		said := `"content"` + colon + string(content)
		if l.contentFirst {
			role, said = said, role
		}
		b.WriteString("{" + role + comma + said + "}")
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// text writes a message's content.
func (l layout) text(content string) (json.RawMessage, error) {
	if !l.escapes {
		return plain(content)
	}
	b, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("write a message of a probe: %w", err)
	}
	return b, nil
}

// plain encodes without the escapes that are for HTML.
func plain(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write a part of a probe: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
