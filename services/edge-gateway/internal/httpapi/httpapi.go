// Package httpapi is the public HTTP surface. It finds the route, gives every request
// what all requests need (an id, a trace, CORS, one log line, an answer to every error in
// one form), checks requests, and writes answers: other packages write to a client only
// through its exchange.
//
// Routes are matched by hand and not by http.ServeMux, because no SDK understands its
// redirects and plain-text errors, and because model ids hold slashes, raw or as %2F.
// Nothing is answered in HTML but the console's pages, the sandbox's pages and documents to print.
//
// Limits: a body of Config.MaxBody bytes, read within Config.BodyTimeout. The server
// bounds headers.
package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/telemetry"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/genai"
	"svc.internal/services/edge-gateway/internal/openapi"
	"svc.internal/services/edge-gateway/internal/providerapi"
)

// Routes without a variable part.
var fixed = map[string]route{
	"/v1/chat/completions":     {"/v1/chat/completions", post, chatCompletions.serve},
	"/v1/completions":          {"/v1/completions", post, completions.serve},
	"/v1/embeddings":           {"/v1/embeddings", post, embeddings.serve},
	"/v1/images/generations":   {"/v1/images/generations", post, imageGenerations.serve},
	"/v1/audio/transcriptions": {"/v1/audio/transcriptions", post, (*Handler).transcriptions},
	"/v1/playground/chat":      {"/v1/playground/chat", post, (*Handler).playgroundChat},
	"/v1/playground/models":    {"/v1/playground/models", get, (*Handler).playgroundModels},
	"/v1/models":               {"/v1/models", get, (*Handler).listModels},
	"/v1/responses":            {"/v1/responses", nil, useChat},
	"/v1/messages":             {"/v1/messages", nil, useChat},
	"/api/v1/models":           {"/api/v1/models", get, (*Handler).market},
	"/api/v1/models/catalog":   {"/api/v1/models/catalog", get, (*Handler).market},
	"/api/v1/plans":            {"/api/v1/plans", get, (*Handler).market},
	describedAt:                {describedAt, get, (*Handler).describeAPI},
	webhookPath:                {webhookPath, post, (*Handler).cardWebhook},
	healthPath:                 {healthPath, get, (*Handler).healthz},
	readyPath:                  {readyPath, get, (*Handler).readyz},
}

// Routes with a variable part behind a prefix.
var prefixed = []struct {
	prefix string
	route
}{
	{"/v1/models/", route{"/v1/models/{id}", get, (*Handler).getModel}},
	{"/v1/responses/", route{"/v1/responses", nil, useChat}},
	{"/v1/messages/", route{"/v1/messages", nil, useChat}},
	{"/api/v1/models/", route{modelOf, get, (*Handler).market}},
	{"/api/v1/user/me/provider-keys/", route{
		"/api/v1/user/me/provider-keys/{key_id}", []string{http.MethodDelete},
		agents((*providerapi.API).RevokeProviderKey)}},
	{"/api/v1/user/me/provider-proposals/", route{
		"/api/v1/user/me/provider-proposals/{proposal_id}", []string{http.MethodPost, http.MethodDelete},
		agents((*providerapi.API).Proposal)}},
	{"/api/v1/provider/penalties/", route{appealOf, post, agents((*providerapi.API).AppealPenalty)}},
	{"/api/v1/provider/penalties/", route{evidenceOf, get, agents((*providerapi.API).PenaltyEvidence)}},
	{"/api/v1/provider/external-endpoints/", route{endpointOf,
		[]string{http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodDelete}, agents((*providerapi.API).Endpoint)}},
	{"/api/v1/provider/external-endpoints/", route{checkOf, post, agents((*providerapi.API).CheckEndpoint)}},
	{"/api/v1/provider/payouts/", route{cancelOf, post, agents((*providerapi.API).CancelPayout)}},
	{"/api/v1/user/me/identities/oidc/", route{"/api/v1/user/me/identities/oidc/{issuer}", post,
		agents((*providerapi.API).LinkOpenID)}},
	{"/api/v1/user/oidc/", route{openIDOf + providerapi.StartSuffix, get, agents((*providerapi.API).StartOpenID)}},
	{"/api/v1/user/oidc/", route{openIDOf + providerapi.CallbackSuffix, get, agents((*providerapi.API).FinishOpenID)}},
	{sandboxPrefix, route{sandboxOf, getOrPost, (*Handler).sandboxPage}},
	{"/api/v1/provider/statements/", route{"/api/v1/provider/statements/{day}", get,
		agents((*providerapi.API).Statement)}},
	{"/api/v1/stats/plan-pool/", route{planPoolOf, get, agents((*providerapi.API).PlanPool)}},
	{"/api/v1/requests/", route{"/api/v1/requests/{id}", get, (*Handler).receipt}},
}

// find returns the route of an escaped path and the path's variable part, still escaped.
func find(path string) (route, string) {
	if r, ok := fixed[path]; ok {
		return r, ""
	}
	if r, ok := ofProviders[path]; ok {
		return r, ""
	}
	if r, ok := findUsers(path); ok {
		return r, ""
	}
	for _, p := range prefixed {
		if rest, ok := strings.CutPrefix(path, p.prefix); ok && p.takes(rest) {
			return p.of(rest), rest
		}
	}
	return unknown, ""
}

// dispatch answers one request, or returns the error to answer with.
func (h *Handler) dispatch(x *exchange) error {
	if h.absent(x.route) {
		return unknown.serve(h, x)
	}
	if x.request.Method == http.MethodOptions && x.foreign && crossOrigin(x.request.URL.Path) {
		return h.preflight(x)
	}
	if strings.HasPrefix(x.request.URL.Path, "/v1/") && dialguard.HubMarked(x.request.Header) {
		return errLoop()
	}
	if methods := x.route.methods; methods != nil && !slices.Contains(methods, x.request.Method) {
		x.Header().Set("Allow", strings.Join(methods, ", "))
		return fault.New(fault.Invalid, apierror.MethodNotAllowed, "This route answers %s.", strings.Join(methods, " and "))
	}
	return x.route.serve(h, x)
}

// errLoop refuses a request that a hub sent. The request came by an external endpoint that leads back
// here, perhaps through a proxy that hides this, and would be sent round and round. The hub's probe of
// such an endpoint fails for the same reason.
func errLoop() error {
	return fault.New(fault.Precondition, apierror.LoopDetected,
		"This request comes from a hub of this marketplace: an external endpoint must not lead back to it.")
}

func useChat(*Handler, *exchange) error {
	return fault.New(fault.NotFound, apierror.UnknownRoute,
		"This endpoint is not served. Use POST /v1/chat/completions, which every model here answers.")
}

func (h *Handler) describeAPI(x *exchange) error { return h.json(x, openapi.Document()) }

// ServeHTTP answers one request of the public listener and writes its log line.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, surface{find: find, page: pageRoute(h.site), foreign: true})
}

// lastOfConnection reports whether a request is the last of its connection, because its
// framing is in doubt and nothing behind it may be read as another request.
//
// A body in chunks is the last of its connection. net/http drops a Content-Length that
// stands beside the chunks, so the request cannot be refused here. A front that goes by
// that length takes bytes behind the chunks for the next request, and those are never
// read. A request of HTTP/1.0 is the last of its connection too, because net/http drops
// its Transfer-Encoding and takes the chunks for the next request.
func lastOfConnection(r *http.Request) bool {
	return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, s surface) {
	if lastOfConnection(r) {
		w.Header().Set("Connection", "close")
	}
	x := &exchange{
		started: h.Clock.Now(), foreign: s.foreign, w: w, control: http.NewResponseController(w),
	}
	x.facts = x.room[:0]
	var refused error
	if s.admit != nil {
		refused = s.admit(r)
	}
	if x.route = unknown; refused == nil {
		x.route, x.rest = s.routeOf(r)
	}
	if h.Rates != nil && s.foreign && tellsRate(r) {
		x.before = func(status int) { h.tellRate(x, status) }
	}
	ctx, span := h.startSpan(r, x.route.pattern)
	defer span.End()
	id, err := ids.NewRequest(x.started, h.Random)
	if err == nil {
		x.id = id.String()
		ctx = telemetry.WithRequestID(ctx, x.id)
	}
	x.request = r.WithContext(ctx)
	if r.ContentLength != 0 {
		h.expectBody(x)
	}
	defer h.end(ctx, x)
	if err != nil {
		h.tell(x, err)
		return
	}
	x.nameRequest()
	x.Header().Set("X-Content-Type-Options", "nosniff")
	if s.foreign && crossOrigin(r.URL.Path) {
		allowOrigin(x.Header(), r.Header.Get("Origin"))
	}
	if err := h.dispatch(x); err != nil {
		h.tell(x, err)
	}
}

// end catches a panic, measures, and writes the log line.
func (h *Handler) end(ctx context.Context, x *exchange) {
	p := recover()
	if p != nil {
		begun := x.status != 0
		h.tell(x, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		if begun {
			// An answer that has begun cannot be taken back. The client must see that it
			// is cut off.
			defer panic(http.ErrAbortHandler)
		}
	}
	// The next request on this connection begins without a deadline.
	defer func() { _ = x.control.SetWriteDeadline(time.Time{}) }()
	took := h.Clock.Now().Sub(x.started)
	status := x.status
	if a := apierror.Of(x.err); x.err != nil && a.Status == apierror.StatusClientClosed {
		status = a.Status
	}
	h.Metrics.request(ctx, x.route.pattern, status, took)
	if x.err != nil {
		h.Metrics.refused(ctx, x.route.pattern, apierror.Of(x.err).KnownCode())
	}
	if x.model != "" {
		h.Metrics.model(ctx, measured(x, took))
	}
	describe(trace.SpanFromContext(ctx), x, status)
	h.log(ctx, x, status, took)
	if (status == apierror.StatusClientClosed || x.cut) && p == nil {
		// net/http would end the answer properly. A client that has closed only its side
		// for writing would then read 200 and nothing, or half an answer.
		panic(http.ErrAbortHandler)
	}
}

// operations names the operation that a route asks a model for.
var operations = map[string]genai.Operation{
	"/v1/chat/completions":     genai.Chat,
	"/v1/completions":          genai.TextCompletion,
	"/v1/embeddings":           genai.Embeddings,
	"/v1/images/generations":   genai.Images,
	"/v1/audio/transcriptions": genai.Transcription,
	"/v1/playground/chat":      genai.Chat,
}

// measured returns the measurements of a request whose model is known.
func measured(x *exchange, took time.Duration) genai.Request {
	r := genai.Request{
		Operation: operations[x.route.pattern], Model: x.model, Took: took, OutputTokens: x.result.Tokens,
	}
	if x.err != nil {
		r.Reason = apierror.Of(x.err).KnownCode()
	}
	if x.stream {
		r.FirstToken = x.result.FirstContent
	}
	if usage := x.result.Usage; usage != nil {
		r.Billed, r.BilledInput = true, usage.GetBillablePromptTokens()
		r.BilledOutput = usage.GetBillableCompletionTokens()
	}
	return r
}

// logMembers is how many members a log line has at the most beside the facts of its request.
const logMembers = 7

func (h *Handler) log(ctx context.Context, x *exchange, status int, took time.Duration) {
	level := slog.LevelInfo
	attrs := append(make([]slog.Attr, 0, len(x.facts)+logMembers),
		slog.String("request_id", x.id),
		slog.String("method", method(x.request.Method)),
		slog.String("route", x.route.pattern),
		slog.Int("status", status),
		slog.Int64("duration_ms", took.Milliseconds()),
	)
	attrs = append(attrs, x.facts...)
	if x.err != nil {
		a := apierror.Of(x.err)
		attrs = append(attrs, slog.String("code", a.KnownCode()))
		if a.Internal || status >= http.StatusInternalServerError {
			attrs = append(attrs, slog.Any("error", x.err))
		}
		if a.Internal {
			level = slog.LevelError
		}
	}
	h.Log.LogAttrs(ctx, level, "request", attrs...)
}

// absent reports whether a route does not exist as the gateway is configured.
func (h *Handler) absent(r route) bool {
	return h.Playground == nil && strings.HasPrefix(r.pattern, playgroundRoutes)
}

// preflight answers without a key, whatever the route.
func (h *Handler) preflight(x *exchange) error {
	header := x.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	header.Set("Access-Control-Allow-Headers", askedHeaders(x.request.Header))
	header.Set("Access-Control-Max-Age", "86400")
	header.Set("Vary", "Access-Control-Request-Headers")
	x.WriteHeader(http.StatusNoContent)
	return nil
}
