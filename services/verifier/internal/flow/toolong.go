package flow

import (
	"net/http"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
)

// tooLong reports whether a refusal says that the prompt does not fit the window. Engines
// have no common code for that.
func tooLong(status int, body []byte) bool {
	if status == http.StatusRequestEntityTooLarge {
		return true
	}
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	said := openai.ParseError(body)
	if said.Code == string(fault.ContextLengthExceeded) {
		return true
	}
	text := strings.ToLower(said.Message)
	for _, phrase := range []string{
		"context length", "context window", "context size", "maximum context", "too many tokens", "input is too long",
		"prompt is too long", "longer than the maximum model length",
	} {
		if strings.Contains(text, phrase) {
			return true
		}
	}
	return false
}
