package httpapi

import (
	"context"
	"net/http"
	"time"

	"svc.internal/services/edge-gateway/internal/auth"
)

// Every answer under /v1 to the owner of a good key tells what is left of the
// key's rate. Admission tells it with its own answer, so that what is admitted
// asks for nothing more; for all others it is read when the answer begins, after
// whose key it is where that has not been found out.

// ratePatience is how long an answer waits for whose key it is, and as long again for
// what is left of its rate; without either it says nothing.
const ratePatience = 250 * time.Millisecond

// categoryOf is the category of a route's models as long as no model is known;
// llm of all others.
var categoryOf = map[string]string{
	"/v1/embeddings":           "embedding",
	"/v1/images/generations":   "image",
	"/v1/audio/transcriptions": "audio",
}

// category is that of a model, whose rate the answer speaks of; empty when there is
// no such model.
func (h *Handler) category(model string) string {
	if m, err := h.Catalog.Find(model); err == nil {
		return m.Category
	}
	return ""
}

// tellRate says what is left of the key's rate in an answer that begins, unless
// admission has told it.
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

// caller is whose key the request carries, nil without a good one. A route that
// needs no key has not asked yet, nor has one that refused before it came to it.
func (h *Handler) caller(x *exchange) *auth.Principal {
	if x.authenticated {
		return x.who
	}
	ctx, cancel := patience(x)
	defer cancel()
	return h.Auth.OptionalPrincipal(ctx, x.request.Header, h.Addresses.Of(x.request))
}

// patience ends with time and not with the client, since others may wait for it.
func patience(x *exchange) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(x.request.Context()), ratePatience)
}
