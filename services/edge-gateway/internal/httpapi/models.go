package httpapi

import "net/url"

// maxModelName bounds the model id of a path.
const maxModelName = 256

// listModels lists the models for anybody. A good key that may not use all of them is shown
// the models that it may use.
func (h *Handler) listModels(x *exchange) error {
	var may func(id string) bool
	if who := h.caller(x); who != nil && who.Restricted() {
		may = who.MayUse
	}
	body, err := h.Catalog.List(x.request.URL.Query().Get("all") == "true", may)
	if err != nil {
		return err
	}
	return h.json(x, body)
}

func (h *Handler) getModel(x *exchange) error {
	name, err := url.PathUnescape(x.rest)
	if err != nil || len(name) > maxModelName {
		name = "" // no model has it
	}
	x.category = h.category(name)
	body, err := h.Catalog.Object(name)
	if err != nil {
		return err
	}
	if model, err := h.Catalog.Find(name); err == nil {
		setDeprecation(x.Header(), model.DeprecatedAt)
	}
	return h.json(x, body)
}

// market goes through calls of bounded time, so one write deadline suffices.
func (h *Handler) market(x *exchange) error {
	h.setWriteDeadline(x)
	return h.Market.Serve(x, x.request)
}
