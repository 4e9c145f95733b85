package httpapi

import (
	"net/http"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/idempotency"
)

// enter does what every request that is paid for begins with, before its body
// of at most limit bytes is read: who asks, and of whom. The order of its steps
// is the public order of errors: 413, 401, 400. checkHead looks at the headers
// that describe the body.
func (h *Handler) enter(x *exchange, limit int64, checkHead func(http.Header) error) (*auth.Principal, admission.Pin, error) {
	if err := checkDeclared(x.request, limit); err != nil {
		return nil, admission.Pin{}, err
	}
	ask := h.authenticate
	if idempotency.Given(x.request.Header) {
		ask = h.authenticateAfresh // a kept answer is given without admission
	}
	who, err := ask(x)
	if err != nil {
		return nil, admission.Pin{}, err
	}
	pin, err := admission.ParsePin(x.request.Header)
	if err != nil {
		if len(x.request.Header.Values(admission.ProviderHeader)) > 0 {
			x.header().Set("X-Svc-Route-Mode", "explicit")
		}
		return nil, admission.Pin{}, overrules(x, err, limit)
	}
	setRoute(x.header(), pin)
	if err := checkHead(x.request.Header); err != nil {
		return nil, admission.Pin{}, overrules(x, err, limit)
	}
	return who, pin, nil
}

// findModel looks for the model of a request that asks for an endpoint.
func (h *Handler) findModel(name string, asked hubv1.Endpoint) (*catalog.Model, error) {
	model, err := h.Catalog.Find(name)
	if err != nil {
		return nil, err
	}
	if model.Endpoint != asked {
		return nil, wrongEndpoint(model.Endpoint)
	}
	return model, nil
}

// routeOf is the route that serves the models of an endpoint.
var routeOf = map[hubv1.Endpoint]string{
	hubv1.Endpoint_ENDPOINT_CHAT:           "POST /v1/chat/completions",
	hubv1.Endpoint_ENDPOINT_EMBEDDINGS:     "POST /v1/embeddings",
	hubv1.Endpoint_ENDPOINT_IMAGES:         "POST /v1/images/generations",
	hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS: "POST /v1/audio/transcriptions",
}

func wrongEndpoint(served hubv1.Endpoint) error {
	message := "This model is not served by this endpoint."
	if route := routeOf[served]; route != "" {
		message += " Use " + route + "."
	}
	return fault.New(fault.Invalid, apierror.UnsupportedEndpointForModel, "%s", message).On("model")
}

func mayUse(who *auth.Principal, model *catalog.Model) error {
	if who.MayUse(model.ID) {
		return nil
	}
	return fault.New(fault.Denied, fault.ModelNotAllowed, "This key may not use this model.").On("model")
}
