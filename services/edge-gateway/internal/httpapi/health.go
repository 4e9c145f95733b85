package httpapi

import "svc.internal/pkg/fault"

func (h *Handler) healthz(x *exchange) error { return h.json(x, []byte(`{"status":"ok"}`)) }

// readyz names everything that is missing in one text.
func (h *Handler) readyz(x *exchange) error {
	if err := h.Ready(x.request.Context()); err != nil {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "The service is not ready.")
	}
	return h.json(x, []byte(`{"status":"ready"}`))
}
