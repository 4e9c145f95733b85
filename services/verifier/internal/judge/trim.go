package judge

import (
	"bytes"
	"encoding/json"

	"svc.internal/services/verifier/internal/statistic"
)

// Trim returns a reference's score with no more of prompt_logprobs than the answer's
// positions, because those of a long prompt have megabytes that nothing is computed of. The
// trimmed score gives the same judgement. A score that cannot be used is returned as it is.
func Trim(raw []byte, text string) []byte {
	positions, v := statistic.Prompt(bytes.NewReader(raw), text)
	if v != statistic.None {
		return raw
	}
	m, ok := members(raw)
	if !ok {
		return raw
	}
	var prompt []json.RawMessage
	if !list(m["prompt_logprobs"], &prompt) || len(prompt) < len(positions) {
		return raw
	}
	kept, err := json.Marshal(struct {
		Choices json.RawMessage   `json:"choices,omitempty"`
		Usage   json.RawMessage   `json:"usage,omitempty"`
		Prompt  []json.RawMessage `json:"prompt_logprobs"`
	}{m["choices"], m["usage"], prompt[len(prompt)-len(positions):]})
	if err != nil || len(kept) >= len(raw) {
		return raw
	}
	return kept
}

// Text returns the text of an engine's answer, as a reference is to score it. It fails with
// the reason why there is none.
func Text(raw []byte) (string, statistic.Void) {
	r, v := read(raw)
	return r.text, v
}
