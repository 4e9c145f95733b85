package tinylm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Bounds and defaults of a request.
const (
	maxBodyBytes     = 1 << 20
	maxChoices       = 8
	maxStops         = 4
	maxStopBytes     = 1024
	maxTopLogprobs   = 20
	maxTemperature   = 2
	defaultMaxTokens = 128
	// defaultTemperature is lower than elsewhere, because a model this small
	// stumbles over its own unlikely bytes.
	defaultTemperature = 0.3
)

// chat is a checked chat completion request.
type chat struct {
	prompt       []byte
	continued    []byte // text of the final message, when the answer continues it
	params       Params
	seeded       bool // params.Seed was in the request
	choices      int
	logprobs     bool
	stream       bool
	includeUsage bool
	// scored asks for the log-probabilities of the prompt's tokens, and scoredTop is how
	// many of the likeliest tokens stand beside each.
	scored    bool
	scoredTop int
}

// chatBody is the request body. Members that chatBody does not name are accepted
// and have no effect.
type chatBody struct {
	Model               *string         `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	N                   *int            `json:"n"`
	Seed                *int64          `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Logprobs            *bool           `json:"logprobs"`
	TopLogprobs         *int            `json:"top_logprobs"`
	Stream              *bool           `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	// The members below are vLLM's.
	ContinueFinalMessage *bool `json:"continue_final_message"`
	AddGenerationPrompt  *bool `json:"add_generation_prompt"`
	PromptLogprobs       *int  `json:"prompt_logprobs"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// decodeChat reads and checks a request body for the model of the name.
func decodeChat(raw []byte, name string) (*chat, *apiError) {
	var body chatBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, malformed(err)
	}
	switch {
	case body.Model == nil:
		return nil, missing("model")
	case len(body.Messages) == 0:
		return nil, missing("messages")
	}
	c := &chat{stream: value(body.Stream, false), logprobs: value(body.Logprobs, false)}
	c.includeUsage = c.stream && body.StreamOptions != nil && body.StreamOptions.IncludeUsage
	var fault *apiError
	if fault = body.prompt(c); fault != nil {
		return nil, fault
	}
	if fault = body.scoring(c); fault != nil {
		return nil, fault
	}
	if fault = body.sampling(c); fault != nil {
		return nil, fault
	}
	if *body.Model != name {
		return nil, unknownModel(*body.Model, name)
	}
	return c, nil
}

// malformed is the error for a body that cannot be decoded. It names the
// parameter if the fault is the JSON type of a parameter.
func malformed(err error) *apiError {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return invalid(mismatch.Field, "%s cannot be a JSON %s", mismatch.Field, mismatch.Value)
	}
	return invalid("", "the body is not valid JSON: %v", err)
}

// prompt lays out the messages. A final message that is to be continued is not
// finished and keeps the space around its text, because it is scored byte for byte.
func (b *chatBody) prompt(c *chat) *apiError {
	messages, fault := b.conversation()
	if fault != nil {
		return fault
	}
	switch last := len(messages) - 1; {
	case !value(b.ContinueFinalMessage, false):
		c.prompt = layOut(messages)
		if value(b.AddGenerationPrompt, true) {
			c.prompt = Prompt(messages)
		}
	case value(b.AddGenerationPrompt, true):
		return invalid("continue_final_message",
			"Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	case messages[last].Role != RoleAssistant:
		at := fmt.Sprintf("messages[%d].role", last)
		return invalid(at, "continue_final_message continues only a message of the role assistant")
	default:
		c.prompt, c.continued = Prompt(messages[:last]), []byte(messages[last].Text)
	}
	return nil
}

// scoring checks prompt_logprobs.
func (b *chatBody) scoring(c *chat) *apiError {
	if b.PromptLogprobs == nil {
		return nil
	}
	c.scored, c.scoredTop = true, *b.PromptLogprobs
	switch {
	case c.stream:
		return invalid("prompt_logprobs", "`prompt_logprobs` are not available when `stream=True`.")
	case c.scoredTop < 0 || c.scoredTop > maxTopLogprobs:
		return invalid("prompt_logprobs", "prompt_logprobs must be between 0 and %d", maxTopLogprobs)
	}
	return nil
}

// conversation reads the messages.
func (b *chatBody) conversation() ([]Message, *apiError) {
	messages := make([]Message, len(b.Messages))
	for i, m := range b.Messages {
		at := fmt.Sprintf("messages[%d]", i)
		switch role := Role(m.Role); role {
		case RoleSystem, RoleDeveloper, RoleUser, RoleAssistant, RoleTool, RoleFunction:
			messages[i].Role = role
		case "":
			return nil, missing(at + ".role")
		default:
			return nil, invalid(at+".role", "%s.role cannot be %q", at, m.Role)
		}
		text, fault := m.text(at + ".content")
		if fault != nil {
			return nil, fault
		}
		messages[i].Text = text
	}
	return messages, nil
}

// text is the message's content, which is a string or an array of text parts.
// Only a message of an assistant may have no content.
func (m chatMessage) text(param string) (string, *apiError) {
	if absent(m.Content) {
		if Role(m.Role) == RoleAssistant {
			return "", nil
		}
		return "", missing(param)
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return "", invalid(param, "%s must be a string or an array of text parts", param)
	}
	var whole strings.Builder
	for i, part := range parts {
		if part.Type != "text" || part.Text == nil {
			return "", invalid(fmt.Sprintf("%s[%d]", param, i), "this model reads only text parts, not %q", part.Type)
		}
		whole.WriteString(*part.Text)
	}
	return whole.String(), nil
}

// sampling checks the numbers and fills c's parameters.
func (b *chatBody) sampling(c *chat) *apiError {
	c.params = Params{
		Temperature: value(b.Temperature, defaultTemperature),
		TopP:        value(b.TopP, 1),
		MaxTokens:   value(b.MaxCompletionTokens, value(b.MaxTokens, defaultMaxTokens)),
		TopLogprobs: value(b.TopLogprobs, 0),
		Seed:        uint64(value(b.Seed, 0)),
	}
	c.choices, c.seeded = value(b.N, 1), b.Seed != nil
	switch p := c.params; {
	case p.Temperature < 0 || p.Temperature > maxTemperature:
		return invalid("temperature", "temperature must be between 0 and %d", maxTemperature)
	case p.TopP < 0 || p.TopP > 1:
		return invalid("top_p", "top_p must be between 0 and 1")
	case c.choices < 1 || c.choices > maxChoices:
		return invalid("n", "n must be between 1 and %d", maxChoices)
	case p.MaxTokens < 1 && b.MaxCompletionTokens != nil:
		return invalid("max_completion_tokens", "max_completion_tokens must be at least 1")
	case p.MaxTokens < 1:
		return invalid("max_tokens", "max_tokens must be at least 1")
	case p.TopLogprobs < 0 || p.TopLogprobs > maxTopLogprobs:
		return invalid("top_logprobs", "top_logprobs must be between 0 and %d", maxTopLogprobs)
	case p.TopLogprobs > 0 && !c.logprobs:
		return invalid("top_logprobs", "top_logprobs needs logprobs to be true")
	}
	var fault *apiError
	c.params.Stop, fault = stopTexts(b.Stop)
	return fault
}

// stopTexts reads null, a string, or an array of up to four strings.
func stopTexts(raw json.RawMessage) ([]string, *apiError) {
	if absent(raw) {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		raw, _ = json.Marshal([]string{one}) // strings always marshal
	}
	var texts []string
	if json.Unmarshal(raw, &texts) != nil {
		return nil, invalid("stop", "stop must be a string or an array of strings")
	}
	if len(texts) > maxStops {
		return nil, invalid("stop", "stop can hold at most %d strings", maxStops)
	}
	for _, text := range texts {
		if text == "" || len(text) > maxStopBytes {
			return nil, invalid("stop", "each stop string must have 1 to %d bytes", maxStopBytes)
		}
	}
	return texts, nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// value is *p, or otherwise when p is nil.
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
