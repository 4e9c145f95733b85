package e2e

import (
	"encoding/json"

	"github.com/openai/openai-go/v3"
	gopenai "github.com/sashabaranov/go-openai"
)

// habits are what consumers say beside model, prompt and bound. Nothing is sent of those
// that are empty.
type habits struct {
	// Before are the messages before the prompt.
	Before      []turn   `json:"before,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	// Penalties sends both penalties as 0.
	Penalties   bool   `json:"penalties,omitempty"`
	Seed        *int64 `json:"seed,omitempty"`
	TopLogprobs int    `json:"top_logprobs,omitempty"`
	// Body is the whole call, for SDKs that send what they are given in its order.
	Body json.RawMessage `json:"body,omitempty"`
}

type turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ofGopher adds the habits to a request of go-openai.
func (h habits) ofGopher(r *gopenai.ChatCompletionRequest) {
	var before []gopenai.ChatCompletionMessage
	for _, m := range h.Before {
		before = append(before, gopenai.ChatCompletionMessage{Role: m.Role, Content: m.Content})
	}
	r.Messages = append(before, r.Messages...)
	if h.Temperature != nil {
		r.Temperature = float32(*h.Temperature)
	}
	if h.TopP != nil {
		r.TopP = float32(*h.TopP)
	}
	if h.Seed != nil {
		seed := int(*h.Seed)
		r.Seed = &seed
	}
	if h.TopLogprobs > 0 {
		r.LogProbs, r.TopLogProbs = true, h.TopLogprobs
	}
}

// ofOfficial adds the habits to a request of the official SDK for Go.
func (h habits) ofOfficial(p *openai.ChatCompletionNewParams) {
	roles := map[string]func(string) openai.ChatCompletionMessageParamUnion{
		"system": openai.SystemMessage[string], "user": openai.UserMessage[string],
		"assistant": openai.AssistantMessage[string],
	}
	var before []openai.ChatCompletionMessageParamUnion
	for _, m := range h.Before {
		before = append(before, roles[m.Role](m.Content))
	}
	p.Messages = append(before, p.Messages...)
	if h.Temperature != nil {
		p.Temperature = openai.Float(*h.Temperature)
	}
	if h.TopP != nil {
		p.TopP = openai.Float(*h.TopP)
	}
	if h.Penalties {
		p.FrequencyPenalty, p.PresencePenalty = openai.Float(0), openai.Float(0)
	}
	if h.Seed != nil {
		p.Seed = openai.Int(*h.Seed)
	}
	if h.TopLogprobs > 0 {
		p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(int64(h.TopLogprobs))
	}
}
