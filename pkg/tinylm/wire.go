package tinylm

import (
	"encoding/json"
	"fmt"

	"svc.internal/pkg/tinylm/internal/transcript"
)

// The shapes of the API's answers. Fields stand in the order of the API's reference.

type completion struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Choices     []choice `json:"choices"`
	Usage       usage    `json:"usage"`
	Fingerprint string   `json:"system_fingerprint"`
}

type choice struct {
	Index        int       `json:"index"`
	Message      answer    `json:"message"`
	Logprobs     *logprobs `json:"logprobs"`
	FinishReason Finish    `json:"finish_reason"`
}

type answer struct {
	Role    Role    `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

type chunk struct {
	ID          string        `json:"id"`
	Object      string        `json:"object"`
	Created     int64         `json:"created"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint"`
	Choices     []chunkChoice `json:"choices"`
	// Usage is absent, null or an object: see run.chunk.
	Usage json.RawMessage `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index        int       `json:"index"`
	Delta        delta     `json:"delta"`
	Logprobs     *logprobs `json:"logprobs"`
	FinishReason *Finish   `json:"finish_reason"`
}

type delta struct {
	Role    Role    `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

func usageOf(prompt, completion int) usage { return usage{prompt, completion, prompt + completion} }

type logprobs struct {
	Content []tokenLogprob `json:"content"`
	Refusal *string        `json:"refusal"`
}

type tokenLogprob struct {
	candidateLogprob
	Top []candidateLogprob `json:"top_logprobs"`
}

type candidateLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// logprobsOf returns nil unless log-probabilities are wanted.
func logprobsOf(tokens []Token, wanted bool) *logprobs {
	if !wanted {
		return nil
	}
	out := &logprobs{Content: make([]tokenLogprob, len(tokens))}
	for i, token := range tokens {
		entry := tokenLogprob{show(Candidate{token.Byte, token.Logprob}), make([]candidateLogprob, len(token.Top))}
		for j, other := range token.Top {
			entry.Top[j] = show(other)
		}
		out.Content[i] = entry
	}
	return out
}

// show writes a byte as text if it is a whole character, as an escape if it is part
// of a character, and by name if it ends the answer. The bytes of the end are those of its
// name, as vLLM has them, so that it is the same token here and in prompt_logprobs.
func show(c Candidate) candidateLogprob {
	text := string(rune(c.Byte))
	switch {
	case c.Byte == transcript.End:
		const end = "<|end|>"
		name := make([]int, len(end))
		for i := range len(end) {
			name[i] = int(end[i])
		}
		return candidateLogprob{end, c.Logprob, name}
	case c.Byte >= 0x80:
		text = fmt.Sprintf(`\x%02x`, c.Byte)
	}
	return candidateLogprob{text, c.Logprob, []int{int(c.Byte)}}
}

type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// MaxModelLen is the member in which engines state their context window.
	MaxModelLen int `json:"max_model_len"`
}
