package judge

import (
	"encoding/json"

	"svc.internal/services/verifier/internal/statistic"
)

// Trim returns a reference's score of an answer's trimmed text (Text) with no more of
// prompt_logprobs than the answer's positions, because those of a long prompt have megabytes
// that nothing is computed of. The shorter score gives the same judgement. A score that
// cannot be used is returned as it is.
func Trim(raw []byte, text string) []byte {
	n := Tokens(raw, text)
	m, ok := members(raw)
	if !ok || n == 0 {
		return raw
	}
	var prompt []json.RawMessage
	if !list(m["prompt_logprobs"], &prompt) || len(prompt) < n {
		return raw
	}
	kept, err := json.Marshal(struct {
		Choices json.RawMessage   `json:"choices,omitempty"`
		Usage   json.RawMessage   `json:"usage,omitempty"`
		Prompt  []json.RawMessage `json:"prompt_logprobs"`
	}{m["choices"], m["usage"], prompt[len(prompt)-n:]})
	if err != nil || len(kept) >= len(raw) {
		return raw
	}
	return kept
}

// Text returns the text of an engine's answer without the blanks around it. It fails with
// the reason why there is none.
func Text(raw []byte) (string, statistic.Void) {
	r, v := read(raw)
	return statistic.Trim(r.text), v
}

// Scored returns the text of an engine's answer that a reference is to score.
func Scored(raw []byte) string {
	r, _ := read(raw)
	return statistic.Scored(r.text)
}

// Tokens counts the tokens of an answer's text by a reference's score of it; 0 where the score
// cannot be used.
func Tokens(raw []byte, text string) int {
	joined, _ := statistic.Join(raw, text, nil)
	return len(joined.Positions)
}
