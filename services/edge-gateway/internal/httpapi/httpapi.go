// Package httpapi is the public HTTP surface: it finds the route, does what
// every request needs (an id, a trace, CORS, one log line, an answer to every
// error in one form), and puts the parts together that serve what models are
// asked for.
//
// Routes are matched by hand and not by http.ServeMux, whose redirects and
// plain-text errors no SDK understands, and because model ids hold slashes, raw
// or as %2F. Nothing is answered in HTML.
//
// Limits: a body of Config.MaxBody bytes, read within Config.BodyTimeout;
// headers are the server's to bound.
package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/pkg/address"
	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/marketapi"
	"svc.internal/services/edge-gateway/internal/openapi"
	"svc.internal/services/edge-gateway/internal/playground"
	"svc.internal/services/edge-gateway/internal/providerapi"
	"svc.internal/services/edge-gateway/internal/ratelimit"
	"svc.internal/services/edge-gateway/internal/relay"
	"svc.internal/services/edge-gateway/internal/witness"
)

// maxModelName bounds the model id of a path.
const maxModelName = 256

// Config bounds what is read.
type Config struct {
	// MaxBody bounds the body of a /v1 request in bytes.
	MaxBody int64
	// MaxUpload bounds a file that is uploaded, Uploads the memory of all
	// uploads together, UploadsOfKey that of one consumer key's, in bytes.
	MaxUpload, Uploads, UploadsOfKey int64
	// MaxMessages bounds the messages of a chat.
	MaxMessages int64
	// BodyTimeout is how long a client may take to send it.
	BodyTimeout time.Duration
	// AnswerTimeout is how long a client may take to read an answer that is
	// not a completion.
	AnswerTimeout time.Duration
	// TrustTraceContext continues the traces that clients name, and records
	// those that they record. Without it a request begins a trace of its own,
	// linked to the client's.
	TrustTraceContext bool
}

// Parts are what the surface is made of.
type Parts struct {
	Log     *slog.Logger
	Tracer  trace.Tracer
	Clock   clock.Clock
	Random  io.Reader
	Metrics *Metrics
	Auth    *auth.Authenticator
	// Addresses finds the client's address; nil trusts no proxy.
	Addresses *address.Finder
	Catalog   *catalog.View
	Gate      *admission.Gate
	Engine    *relay.Engine
	Witness   *witness.Queue
	Leases    *witness.Leases
	Receipts  billingv1.ReceiptServiceClient
	// Playground answers visitors without a key; nil where there is none.
	Playground *playground.Playground
	// Idempotency claims the keys of requests that carry one.
	Idempotency *idempotency.Keeper
	// Rates tells what is left of keys' rates where admission has not; nil leaves
	// it unsaid there.
	Rates  *ratelimit.Reader
	Market *marketapi.API
	// Provider answers the agents of providers.
	Provider *providerapi.API
	Ready    func(context.Context) error
}

// Handler answers all public requests.
type Handler struct {
	Parts
	cfg     Config
	buffers buffers
	uploads uploads
}

// New makes the handler.
func New(parts Parts, cfg Config) *Handler {
	return &Handler{Parts: parts, cfg: cfg, uploads: uploads{
		most: cfg.Uploads, mostOfKey: cfg.UploadsOfKey, ofKey: map[string]int64{},
	}}
}

// route is one kind of request.
type route struct {
	// pattern names the route in logs and metrics.
	pattern string
	methods []string
	// serve answers, or returns the error to answer with.
	serve func(*Handler, *exchange) error
}

var (
	get  = []string{http.MethodGet, http.MethodHead}
	post = []string{http.MethodPost}
)

// Routes without a variable part.
var fixed = map[string]route{
	"/v1/chat/completions":     {"/v1/chat/completions", post, idempotent((*Handler).chat)},
	"/v1/completions":          {"/v1/completions", post, idempotent((*Handler).completions)},
	"/v1/embeddings":           {"/v1/embeddings", post, idempotent((*Handler).embeddings)},
	"/v1/images/generations":   {"/v1/images/generations", post, idempotent((*Handler).images)},
	"/v1/audio/transcriptions": {"/v1/audio/transcriptions", post, (*Handler).transcriptions},
	"/v1/playground/chat":      {"/v1/playground/chat", post, (*Handler).playgroundChat},
	"/v1/playground/models":    {"/v1/playground/models", get, (*Handler).playgroundModels},
	"/v1/models":               {"/v1/models", get, (*Handler).listModels},
	"/v1/responses":            {"/v1/responses", nil, useChat},
	"/v1/messages":             {"/v1/messages", nil, useChat},
	"/api/v1/models":           {"/api/v1/models", get, (*Handler).market},
	"/api/v1/models/catalog":   {"/api/v1/models/catalog", get, (*Handler).market},
	"/openapi.json":            {"/openapi.json", get, (*Handler).describe},
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
	{"/api/v1/models/", route{providersOf, get, (*Handler).market}},
	{"/api/v1/user/me/provider-keys/", route{"/api/v1/user/me/provider-keys/{key_id}", []string{http.MethodDelete}, agents((*providerapi.API).RevokeProviderKey)}},
	{"/api/v1/user/me/provider-proposals/", route{"/api/v1/user/me/provider-proposals/{proposal_id}", []string{http.MethodPost, http.MethodDelete}, agents((*providerapi.API).Proposal)}},
	{"/api/v1/requests/", route{"/api/v1/requests/{id}", get, (*Handler).receipt}},
}

var unknown = route{"unknown", nil, func(_ *Handler, x *exchange) error {
	return fault.New(fault.NotFound, apierror.UnknownRoute,
		"There is no route %s %s. The API is under /v1.", method(x.request.Method), shownPath(x.request.URL.Path))
}}

// maxShownPath bounds what an answer repeats of a path.
const maxShownPath = 128

// shownPath is a path as it may stand in a message: bounded, in printable ASCII.
func shownPath(path string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, path[:min(len(path), maxShownPath)])
}

// find gives the route of an escaped path and the path's variable part, still
// escaped.
func find(path string) (route, string) {
	if r, ok := fixed[path]; ok {
		return r, ""
	}
	if r, ok := ofProviders[path]; ok {
		return r, ""
	}
	for _, p := range prefixed {
		if rest, ok := strings.CutPrefix(path, p.prefix); ok && rest != "" {
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
	if x.request.Method == http.MethodOptions && x.pages && crossOrigin(x.request.URL.Path) {
		return h.preflight(x)
	}
	if methods := x.route.methods; methods != nil && !slices.Contains(methods, x.request.Method) {
		x.header().Set("Allow", strings.Join(methods, ", "))
		return fault.New(fault.Invalid, apierror.MethodNotAllowed, "This route answers %s.", strings.Join(methods, " and "))
	}
	return x.route.serve(h, x)
}

func useChat(*Handler, *exchange) error {
	return fault.New(fault.NotFound, apierror.UnknownRoute,
		"This endpoint is not served. Use POST /v1/chat/completions, which every model here answers.")
}

// market goes through calls of bounded time, so one write deadline suffices.
func (h *Handler) market(x *exchange) error {
	h.setWriteDeadline(x)
	return h.Market.Serve(x.answer, x.request)
}

func (h *Handler) describe(x *exchange) error { return h.json(x, openapi.Document()) }

func (h *Handler) healthz(x *exchange) error { return h.json(x, []byte(`{"status":"ok"}`)) }

// readyz says in one text what is missing.
func (h *Handler) readyz(x *exchange) error {
	if err := h.Ready(x.request.Context()); err != nil {
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "The service is not ready.")
	}
	return h.json(x, []byte(`{"status":"ready"}`))
}

func (h *Handler) listModels(x *exchange) error {
	body, err := h.Catalog.List(x.request.URL.Query().Get("all") == "true")
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
	h.rateOf(x, name)
	body, err := h.Catalog.Object(name)
	if err != nil {
		return err
	}
	if model, err := h.Catalog.Find(name); err == nil {
		setDeprecation(x.header(), model.DeprecatedAt)
	}
	return h.json(x, body)
}
