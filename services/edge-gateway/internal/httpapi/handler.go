package httpapi

import (
	"context"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/address"
	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/cardapi"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/marketapi"
	"svc.internal/services/edge-gateway/internal/pages"
	"svc.internal/services/edge-gateway/internal/playground"
	"svc.internal/services/edge-gateway/internal/providerapi"
	"svc.internal/services/edge-gateway/internal/ratelimit"
)

// Config bounds the bodies and times of requests.
type Config struct {
	// MaxBody bounds the body of a /v1 request in bytes.
	MaxBody int64
	// MaxUpload bounds a file that is uploaded, Uploads the memory of all uploads
	// together, UploadsOfKey the memory of the uploads of one consumer key, in bytes.
	MaxUpload, Uploads, UploadsOfKey int64
	// MaxMessages bounds the messages of a chat.
	MaxMessages int64
	// BodyTimeout is how long a client may take to send a body.
	BodyTimeout time.Duration
	// AnswerTimeout bounds one write to the client of a completion, and the time in
	// which a client must read any other answer.
	AnswerTimeout time.Duration
	// TrustTraceContext continues the traces that clients name, and records a trace where
	// its client records it. Without TrustTraceContext a request begins a trace of its
	// own, linked to the client's trace.
	TrustTraceContext bool
}

// Parts are the parts of the surface.
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
	Runner    *inference.Runner
	Receipts  billingv1.ReceiptServiceClient
	// Passbooks writes users' ledgers, usage and documents as files.
	Passbooks billingv1.PassbookExportServiceClient
	// Playground serves visitors without a key; nil where there is none.
	Playground *playground.Playground
	// Idempotency claims the keys of requests that carry one.
	Idempotency *idempotency.Keeper
	// Rates reads the rest of keys' rates where admission has not given it; with nil
	// those answers say nothing of a rate.
	Rates  *ratelimit.Reader
	Market *marketapi.API
	// Provider answers the agents of providers.
	Provider *providerapi.API
	// Cards takes webhooks of the card processor, and shows the sandbox's pages.
	Cards *cardapi.API
	// Pages are those of the console.
	Pages *pages.Files
	Ready func(context.Context) error
}

// Handler answers all public requests.
type Handler struct {
	Parts
	cfg     Config
	site    *pages.Site // of the public listener
	buffers buffers
	uploads uploads
}

// New makes the handler.
func New(parts Parts, cfg Config) *Handler {
	return &Handler{
		Parts: parts, cfg: cfg,
		site: parts.Pages.Site(pages.Public),
		uploads: uploads{
			maxBytes: cfg.Uploads, maxBytesOfKey: cfg.UploadsOfKey, ofKey: map[string]int64{},
		},
	}
}
