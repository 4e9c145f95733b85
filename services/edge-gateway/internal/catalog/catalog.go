// Package catalog holds the models in memory, as the catalog service pushes them, so that
// every request finds its model without a call.
//
// While the catalog is away a View keeps the last snapshot. No price is taken from a
// snapshot, because admission pins prices. A model is found by id or by slug, ids first.
// The two lists of GET /v1/models are written once for a snapshot and not once for a
// request.
package catalog

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"svc.internal/pkg/catalogwatch"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// Model is what a request needs to know of a catalog entry.
type Model struct {
	ID   string
	Slug string
	// Category is the category that rates are counted by: llm, multimodal, embedding,
	// image or audio; empty for a category that is not known here.
	Category string
	// Endpoint is the kind of request that providers get for this model. It decides which
	// routes the model answers; a legacy completion is sent to providers as a chat. It is
	// unspecified for a category that is not known here, and such a model answers no
	// route.
	Endpoint hubv1.Endpoint
	// DeprecatedAt is when the model leaves; zero for no such time. From then on Find
	// does not return it.
	DeprecatedAt time.Time
	// Successor is the id of the model that takes its place; empty for none.
	Successor string
	// Online reports whether a provider serves the model now.
	Online bool
	// OfflineSince is the time since which no provider has served the model, as far as
	// this gateway knows: not before the gateway's own start, unless the model came later
	// and was never served. It is zero while a provider serves the model.
	OfflineSince time.Time
	// TakesResponseFormat reports whether engines of the model take the parameter
	// response_format.
	TakesResponseFormat bool
	// ContextLength is the largest context window in tokens that a provider may have: the
	// catalog's window, or a larger window that a provider reports.
	ContextLength int64
	// MaxOutputTokens bounds one answer.
	MaxOutputTokens int64
	// HiddenReasoning reports whether the model bills for thoughts that it does not show:
	// the catalog lists hidden_reasoning among its capabilities.
	HiddenReasoning bool
	// Gateway reports whether vendors serve the model, who bill the platform for each request that
	// they were sent.
	Gateway bool
}

// View is the catalog by its last snapshot. It is safe for concurrent use.
type View struct {
	source catalogv1.CatalogServiceClient
	clock  clock.Clock
	log    *slog.Logger
	now    atomic.Pointer[snapshot]
}

// snapshot never changes.
type snapshot struct {
	models   []*catalogv1.Model
	until    time.Time // when the next of them leaves; zero for never
	byName   map[string]*Model
	left     map[string]*Model // the models that have left
	objects  map[string][]byte // id or slug → the model's JSON object
	callable []byte            // GET /v1/models
	all      []byte            // GET /v1/models?all=true
}

// NewView makes a view. It is empty until Run has received a snapshot from source.
func NewView(source catalogv1.CatalogServiceClient, c clock.Clock, log *slog.Logger) *View {
	return &View{source: source, clock: c, log: log}
}

// current returns the snapshot that is in force now, or nil before the first. It is made
// anew when a model's time to leave has come.
func (v *View) current() *snapshot {
	s := v.now.Load()
	if s == nil || s.until.IsZero() {
		return s
	}
	now := v.clock.Now()
	if now.Before(s.until) {
		return s
	}
	renewed := newSnapshot(s.models, s, now)
	v.now.CompareAndSwap(s, renewed) // a newer snapshot of the catalog is not replaced
	return renewed
}

// Run keeps the view up to date until ctx ends.
func (v *View) Run(ctx context.Context) {
	catalogwatch.Run(ctx, v.source, v.log, func(_ context.Context, models []*catalogv1.Model) {
		v.now.Store(newSnapshot(models, v.now.Load(), v.clock.Now()))
	})
}

// Ready returns nil once a snapshot has been received.
func (v *View) Ready() error {
	if v.now.Load() == nil {
		return unseen()
	}
	return nil
}

func unseen() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable, "the model catalog has not been received yet")
}

// Find looks a model up by id or slug. It fails with model_not_found, also for a model
// that has left, or with Unavailable before the first snapshot.
func (v *View) Find(name string) (*Model, error) {
	s := v.current()
	if s == nil {
		return nil, unseen()
	}
	if m, ok := s.byName[name]; ok {
		return m, nil
	}
	return nil, s.notFound(name)
}

// maxShown bounds how much of an arbitrary name an error repeats.
const maxShown = 128

// notFound returns an error that names the model and, for a model that has left, its
// successor.
func (s *snapshot) notFound(name string) error {
	said := strconv.QuoteToASCII(name[:min(len(name), maxShown)])
	text := "The model " + said + " does not exist. GET /v1/models lists those that do."
	if m, ok := s.left[name]; ok {
		text = "The model " + said + " left on " + m.DeprecatedAt.UTC().Format(time.DateOnly) + "."
		if m.Successor != "" {
			text += " Use " + strconv.QuoteToASCII(m.Successor) + "."
		}
	}
	return fault.New(fault.NotFound, fault.ModelNotFound, "%s", text).On("model")
}

// Object returns the JSON of one model, as GET /v1/models/{id} answers it.
func (v *View) Object(name string) ([]byte, error) {
	s := v.current()
	if s == nil {
		return nil, unseen()
	}
	if object, ok := s.objects[name]; ok {
		return object, nil
	}
	return nil, s.notFound(name)
}

// List returns the JSON of GET /v1/models: the models that a provider serves now, or all
// that the catalog offers. Of these it has the models that may returns true for; nil leaves
// none out.
func (v *View) List(all bool, may func(id string) bool) ([]byte, error) {
	s := v.current()
	switch {
	case s == nil:
		return nil, unseen()
	case may != nil:
		return s.listOf(all, may), nil
	case all:
		return s.all, nil
	}
	return s.callable, nil
}
