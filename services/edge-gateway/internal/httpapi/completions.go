package httpapi

import (
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// completions serves POST /v1/completions: the provider sees a chat completion.
func (h *Handler) completions(x *exchange) error {
	return h.answerJSON(x, asJSON{openaiapi.Completion, hubv1.Endpoint_ENDPOINT_CHAT, "chat", "prompt"})
}
