package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/auth"
)

// Every answer under /v1 to the owner of a good key tells what is left of the
// key's rate. Admission tells it with its own answer, so that what is admitted
// asks for nothing more; for all others it is read when the answer begins, after
// whose key it is where that has not been found out.

// ratePatience is how long an answer waits for whose key it is, and as long again for
// what is left of its rate; without either it says nothing.
const ratePatience = 250 * time.Millisecond

// tellsRate reports whether answers to a request speak of its key's rate: those of
// the playground speak of the visitor's, and browsers ask in advance without a
// key.
func tellsRate(r *http.Request) bool {
	path := r.URL.Path
	return strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, playgroundRoutes) && r.Method != http.MethodOptions
}

// categoryOf is the category of a route's models as long as no model is known;
// llm of all others.
var categoryOf = map[string]string{
	"/v1/embeddings":           "embedding",
	"/v1/images/generations":   "image",
	"/v1/audio/transcriptions": "audio",
}

// rateOf makes the answer speak of the rate that a model counts in, if there is
// such a model.
func (h *Handler) rateOf(x *exchange, model string) {
	if m, err := h.Catalog.Find(model); err == nil {
		x.category = m.Category
	}
}

// tellRate says what is left of the key's rate in an answer that begins, unless
// admission has told it.
func (h *Handler) tellRate(x *exchange, status int) {
	if x.rated || status == http.StatusUnauthorized {
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
	if x.asked {
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

// setRate says how much of the key's rate is left, nothing where it has no
// limit, and keeps it from being read.
func (x *exchange) setRate(requests *billingv1.RateLimit) {
	x.rated = true
	if requests.GetLimit() <= 0 {
		return
	}
	h := x.header()
	h.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(int(requests.GetLimit())))
	h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(max(requests.GetRemaining(), 0))))
	h.Set("X-Ratelimit-Reset-Requests", (time.Duration(max(requests.GetResetMs(), 0)) * time.Millisecond).String())
}

// leftBy is what a refusal by admission tells of the rate; nil when it tells
// nothing, or of a key that is no good any more.
func leftBy(refusal error) *billingv1.RateLimit {
	f, ok := fault.As(refusal)
	if !ok || f.Kind == fault.Unauthenticated {
		return nil
	}
	limit, errLimit := strconv.ParseInt(f.Meta["limit"], 10, 32)
	remaining, errRemaining := strconv.ParseInt(f.Meta["remaining"], 10, 32)
	reset, errReset := strconv.ParseInt(f.Meta["reset_ms"], 10, 64)
	if errLimit != nil || errRemaining != nil || errReset != nil {
		return nil
	}
	return &billingv1.RateLimit{Limit: int32(limit), Remaining: int32(remaining), ResetMs: reset}
}
