package httpapi

import (
	"context"
	"net/http"
	"time"

	"svc.internal/services/edge-gateway/internal/auth"
)

// Every answer under /v1 to the owner of a good key shows the rest of the key's rate,
// and no other answer does. Admission gives the rate with its own answer, so an admitted
// request causes no further call. For other requests the rate is read when the answer
// begins, after the owner of the key has been found.

// ratePatience is how long an answer waits for the owner of its key, and as long again
// for the rest of the rate. When either is late the answer says nothing of the rate.
const ratePatience = 250 * time.Millisecond

// categoryOf is the category of a route's models while no model is known; llm for all
// other routes.
var categoryOf = map[string]string{
	"/v1/embeddings":           "embedding",
	"/v1/images/generations":   "image",
	"/v1/audio/transcriptions": "audio",
}

// category returns the category of a model, whose rate the answer shows; empty when there
// is no such model.
func (h *Handler) category(model string) string {
	if m, err := h.Catalog.Find(model); err == nil {
		return m.Category
	}
	return ""
}

// tellRate writes the rest of the key's rate into an answer that begins, unless
// admission has given it.
func (h *Handler) tellRate(x *exchange, status int) {
	if x.rateKnown || status == http.StatusUnauthorized {
		return
	}
	who := h.caller(x)
	if who == nil {
		return
	}
	category := x.category
	if category == "" {
		category = categoryOf[x.route.pattern]
	}
	if category == "" {
		category = "llm"
	}
	ctx, cancel := patience(x)
	defer cancel()
	x.setRate(h.Rates.Read(ctx, who.KeyID, category))
}

// caller returns the owner of the key that the request carries; nil without a good key. A
// route that needs no key has not asked yet, and neither has a route that refused before
// it came to that.
func (h *Handler) caller(x *exchange) *auth.Principal {
	if x.authenticated {
		return x.who
	}
	ctx, cancel := patience(x)
	defer cancel()
	return h.Auth.OptionalPrincipal(ctx, x.request.Header, h.Addresses.Of(x.request))
}

// patience returns a context that ends with time and not with the client, because other
// requests may wait for the same call.
func patience(x *exchange) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(x.request.Context()), ratePatience)
}
