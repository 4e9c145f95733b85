package httpapi

import (
	"slices"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// findModel finds the model of a request for an endpoint.
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

// routeOf names the route that serves the models of an endpoint.
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

// maxNextModels is how many models are tried after the first.
const maxNextModels = 3

// resolve finds the models that may serve a request of a size, in the order in which they
// are tried: the named one and the next ones. Each must exist, serve this endpoint and be
// allowed. A model that no provider serves now is left out, unless no other follows. A
// next model that gives shorter answers than the client asks for is left out too.
func (h *Handler) resolve(
	asked hubv1.Endpoint, who *auth.Principal, name string, next []string, size openaiapi.Size,
) ([]inference.Model, error) {
	first, err := h.resolveOne(asked, who, name, size)
	if err != nil {
		return nil, err
	}
	all := []inference.Model{first}
	for i, name := range next {
		model, err := h.findModel(name, asked)
		if err == nil {
			err = mayUse(who, model)
		}
		if err != nil {
			return nil, onModel(err, openaiapi.ModelParam(i))
		}
		if slices.ContainsFunc(all, func(other inference.Model) bool { return other.Model == model }) {
			continue
		}
		if bounds, err := admission.BoundsOf(size, model); err == nil {
			all = append(all, inference.Model{Model: model, Bounds: bounds})
		}
	}
	reached := all[:0]
	for i, c := range all {
		if c.Online || i == len(all)-1 {
			reached = append(reached, c)
		}
	}
	return reached[:min(len(reached), 1+maxNextModels)], nil
}

// resolveOne finds the first model and checks that the key may use it so.
func (h *Handler) resolveOne(
	asked hubv1.Endpoint, who *auth.Principal, name string, size openaiapi.Size,
) (inference.Model, error) {
	model, err := h.findModel(name, asked)
	if err != nil {
		return inference.Model{}, err
	}
	bounds, err := admission.BoundsOf(size, model)
	if err != nil {
		return inference.Model{}, err
	}
	return inference.Model{Model: model, Bounds: bounds}, mayUse(who, model)
}

// onModel makes an error about the model name the entry of models in which it stands.
func onModel(err error, param string) error {
	if f, ok := fault.As(err); ok && f.Param == "model" {
		return f.On(param)
	}
	return err
}
