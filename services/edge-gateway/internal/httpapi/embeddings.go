package httpapi

import (
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// embeddings serves POST /v1/embeddings.
func (h *Handler) embeddings(x *exchange) error {
	return h.answerJSON(x, asJSON{openaiapi.Embeddings, hubv1.Endpoint_ENDPOINT_EMBEDDINGS, "embeddings", "input"})
}
