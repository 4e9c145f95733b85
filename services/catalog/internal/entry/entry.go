// Package entry has the models of the catalog: what an entry may look like and
// how an operator's wish replaces one.
//
// Bounds: an id and a slug have at most 128 bytes, a name 128 characters, a
// model 32 capabilities and 64 parameters of at most 48 bytes each, a window
// at most 100M tokens, the catalog 10,000 models and 6 MiB of text. The
// database enforces the same bounds once more.
package entry

import (
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/catalog/internal/price"
)

// MaxModels bounds the catalog.
const MaxModels = 10_000

// Category decides which endpoints a model answers and which limits apply.
type Category string

// The categories.
const (
	LLM        Category = "llm"
	Multimodal Category = "multimodal"
	Embedding  Category = "embedding"
)

// Kind is who serves a model. It is never inferred from the id: open models
// carry vendor prefixes too.
type Kind string

// The kinds.
const (
	Open    Kind = "open"
	Gateway Kind = "gateway"
)

// Tier groups models for plan coverage.
type Tier string

// The tiers.
const (
	Free     Tier = "free"
	Standard Tier = "standard"
	Premium  Tier = "premium"
)

// Draft is what an operator decides about a model, prices apart.
type Draft struct {
	ID       string
	Slug     string
	Name     string
	Category Category
	Kind     Kind
	Tier     Tier
	// Active models are in service.
	Active bool
	// ContextTokens is the window in tokens, MaxOutputTokens the longest
	// answer; only an embedding model may have 0 of the latter.
	ContextTokens   int64
	MaxOutputTokens int64
	// Capabilities and Parameters are sorted and name each thing once.
	Capabilities []string
	Parameters   []string
}

// Equal tells whether both say the same.
func (d Draft) Equal(other Draft) bool {
	return d.ID == other.ID && d.Slug == other.Slug && d.Name == other.Name &&
		d.Category == other.Category && d.Kind == other.Kind && d.Tier == other.Tier && d.Active == other.Active &&
		d.ContextTokens == other.ContextTokens && d.MaxOutputTokens == other.MaxOutputTokens &&
		slices.Equal(d.Capabilities, other.Capabilities) && slices.Equal(d.Parameters, other.Parameters)
}

// Model is one entry of the catalog with the price in force.
type Model struct {
	Draft
	CreatedAt time.Time
	// DeprecatedAt is zero unless the model is on its way out.
	DeprecatedAt time.Time
	Price        price.Version
}

// Replace is the model after d and rates are put in the place of current, nil
// when there was none. The price version stays while its rates do.
func (d Draft) Replace(current *Model, rates money.Rates, now time.Time, id ids.PriceVersionID) Model {
	if current == nil {
		first := price.First(rates, now, id)
		return Model{Draft: d, CreatedAt: first.ValidFrom, Price: first}
	}
	next := *current
	next.Draft = d
	next.Price = current.Price.Succeed(rates, now, id)
	return next
}
