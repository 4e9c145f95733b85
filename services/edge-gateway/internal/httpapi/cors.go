package httpapi

import "net/http"

// The headers that browsers may read of our answers, and may send when they do not ask.
const (
	exposedHeaders = "X-Request-Id, X-Svc-Request-Id, X-Svc-First-Request-Id, X-Svc-Request-Ids, X-Svc-Provider-Id, " +
		"X-Svc-Provider-Name, X-Svc-Connection-Mode, X-Svc-Latency-Ms, X-Svc-Route-Mode, " +
		"X-Svc-Requested-Provider, X-Svc-Fallback-Reason, X-Svc-Billing-Type, X-Svc-Context-Source, " +
		"X-Svc-Context-Length, X-Svc-Attempts, X-Svc-Cost-Usd, X-Ratelimit-Limit-Requests, " +
		"X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests, Retry-After, Retry-After-Ms, " +
		"X-Should-Retry, Idempotency-Replayed, Deprecation, Sunset"
	defaultHeaders = "Authorization, Content-Type, X-Api-Key, X-Svc-Provider, X-Svc-Allow-Fallbacks, Idempotency-Key"
	// maxAskedHeaders bounds the list that is echoed, in bytes.
	maxAskedHeaders = 2048
)

// allowOrigin lets any page read the answer. The page itself sends the key, and the
// browser never sends it on its own, so no origin has more rights than another.
func allowOrigin(h http.Header, origin string) {
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
}

// askedHeaders echoes the headers that the browser asks for, if they are a
// list of names and nothing else.
func askedHeaders(h http.Header) string {
	asked := h.Get("Access-Control-Request-Headers")
	if asked == "" || len(asked) > maxAskedHeaders {
		return defaultHeaders
	}
	for _, c := range []byte(asked) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == ',', c == ' ':
		default:
			return defaultHeaders
		}
	}
	return asked
}
