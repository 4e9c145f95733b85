// Package catalog holds the models in memory, as the catalog service pushes
// them: every request finds its model here without a call.
//
// A View keeps the last snapshot while the catalog is away, for as long as it
// takes; prices are not taken from it (admission pins them). Models are found
// by id or by slug, ids first. The two lists of GET /v1/models are written once
// a snapshot and not once a request.
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

// Model is what serving a request needs of a catalog entry.
type Model struct {
	ID   string
	Slug string
	// Category is what rates are counted by: llm, multimodal, embedding, image or
	// audio; empty for one that is not known here.
	Category string
	// Endpoint is what a provider is asked for with this model, which decides
	// the routes that it answers: legacy completions are asked for as chat.
	// Unspecified for a category that is not known here: such a model answers
	// none.
	Endpoint hubv1.Endpoint
	// DeprecatedAt is when the model leaves; zero for no such time. From then on
	// Find does not give it any more.
	DeprecatedAt time.Time
	// Successor is the id of the model that takes its place; empty for none.
	Successor string
	// Online tells that a provider serves the model now.
	Online bool
	// OfflineSince is since when none has, as far as this gateway knows: not before
	// its own start, unless the model came later, which nobody has ever served. Zero
	// while one does.
	OfflineSince time.Time
	// TakesResponseFormat reports that an engine of the model may be told
	// response_format.
	TakesResponseFormat bool
	// ContextLength is the largest window there may be in tokens: the
	// catalog's, or a larger one that a provider reports.
	ContextLength int64
	// MaxOutputTokens bounds one answer.
	MaxOutputTokens int64
	// HiddenReasoning reports that the model bills for thoughts that it does not
	// show: the catalog lists hidden_reasoning among its capabilities.
	HiddenReasoning bool
}

// View is the catalog as last heard of. It is safe for concurrent use.
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
	gone     map[string]*Model // those that have left
	objects  map[string][]byte // id or slug → the model's JSON object
	callable []byte            // GET /v1/models
	all      []byte            // GET /v1/models?all=true
}

// NewView makes a view that is empty until Run hears from source.
func NewView(source catalogv1.CatalogServiceClient, c clock.Clock, log *slog.Logger) *View {
	return &View{source: source, clock: c, log: log}
}

// current is the snapshot as it is to be read now; nil before the first. When the
// time of a model has come, it is read anew.
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
	v.now.CompareAndSwap(s, renewed) // one that has just come from the catalog stays
	return renewed
}

// Run keeps the view up to date until ctx ends.
func (v *View) Run(ctx context.Context) {
	catalogwatch.Run(ctx, v.source, v.log, func(_ context.Context, models []*catalogv1.Model) {
		v.now.Store(newSnapshot(models, v.now.Load(), v.clock.Now()))
	})
}

// Ready is nil once a snapshot has been seen.
func (v *View) Ready() error {
	if v.now.Load() == nil {
		return unseen()
	}
	return nil
}

func unseen() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable, "the model catalog has not been received yet")
}

// Find looks a model up by id or slug. It fails with model_not_found, also for a
// model that has left, or Unavailable before the first snapshot.
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

// maxShown bounds what an error repeats of a name that may be anything.
const maxShown = 128

// notFound names the model, and for one that has left the one to use instead.
func (s *snapshot) notFound(name string) error {
	said := strconv.QuoteToASCII(name[:min(len(name), maxShown)])
	text := "The model " + said + " does not exist. GET /v1/models lists those that do."
	if m, ok := s.gone[name]; ok {
		text = "The model " + said + " left on " + m.DeprecatedAt.UTC().Format(time.DateOnly) + "."
		if m.Successor != "" {
			text += " Use " + strconv.QuoteToASCII(m.Successor) + "."
		}
	}
	return fault.New(fault.NotFound, fault.ModelNotFound, "%s", text).On("model")
}

// Object is the JSON of one model, as GET /v1/models/{id} answers it.
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

// List is the JSON of GET /v1/models: the models that somebody serves now, or
// all that the catalog offers.
func (v *View) List(all bool) ([]byte, error) {
	s := v.current()
	switch {
	case s == nil:
		return nil, unseen()
	case all:
		return s.all, nil
	}
	return s.callable, nil
}
