package httpapi

import (
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// images serves POST /v1/images/generations.
func (h *Handler) images(x *exchange) error {
	return h.answerJSON(x, asJSON{openaiapi.Images, hubv1.Endpoint_ENDPOINT_IMAGES, "images", "prompt"})
}
