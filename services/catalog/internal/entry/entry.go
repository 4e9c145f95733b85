// Package entry has the models of the catalog: what an entry may look like and
// how an operator's wish replaces one.
//
// Bounds: an id and a slug have at most 128 bytes, a name 128 characters, a
// model 32 capabilities and 64 parameters of at most 48 bytes each, a window
// at most 100M tokens, a GPU 65,536 GB, the catalog 10,000 models and 6 MiB of text. The
// database enforces the same bounds once more.
package entry

import (
	"slices"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/catalog/internal/price"
)

// MaxModels bounds the catalog.
const MaxModels = 10_000

// Notice is how long before it goes away a model must be announced to.
const Notice = 30 * 24 * time.Hour

// maxYear keeps instants within what RFC 3339 can write.
const maxYear = 9999

// Category decides which endpoints a model answers, which limits apply and what
// its prices are for.
type Category string

// The categories.
const (
	LLM        Category = "llm"
	Multimodal Category = "multimodal"
	Embedding  Category = "embedding"
	Image      Category = "image"
	Audio      Category = "audio"
)

// Unit is what models of the category are priced by.
func (c Category) Unit() money.Unit {
	switch c {
	case Image:
		return money.Image
	case Audio:
		return money.AudioMinute
	case LLM, Multimodal, Embedding:
	}
	return money.Token
}

// writesTokens reports whether an answer of the category is made of tokens, which
// can be bounded.
func (c Category) writesTokens() bool { return c == LLM || c == Multimodal }

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
	// answer; only a model that writes no tokens may have 0 of the latter.
	ContextTokens   int64
	MaxOutputTokens int64
	// MinVRAMGB is what a GPU needs for the model, in GB; 0 for not known.
	MinVRAMGB int32
	// Capabilities and Parameters are sorted and name each thing once.
	Capabilities []string
	Parameters   []string
	// DeprecatedAt is when the model goes away, as announced. A draft without it
	// leaves an announcement as it stands.
	DeprecatedAt time.Time
	// Successor is the id of the model that takes its place then; empty for none. A
	// draft without it leaves it as it stands. Nothing requires that the catalog has
	// it yet.
	Successor string
}

// Equal reports whether both say the same.
func (d Draft) Equal(other Draft) bool {
	return d.ID == other.ID && d.Slug == other.Slug && d.Name == other.Name &&
		d.Category == other.Category && d.Kind == other.Kind && d.Tier == other.Tier && d.Active == other.Active &&
		d.ContextTokens == other.ContextTokens && d.MaxOutputTokens == other.MaxOutputTokens &&
		d.MinVRAMGB == other.MinVRAMGB &&
		slices.Equal(d.Capabilities, other.Capabilities) && slices.Equal(d.Parameters, other.Parameters) &&
		d.DeprecatedAt.Equal(other.DeprecatedAt) && d.Successor == other.Successor
}

// Model is one entry of the catalog with the price in force.
type Model struct {
	Draft
	CreatedAt time.Time
	Price     price.Version
}

// Replace is the model after d and rates are put in the place of current, nil
// when there was none. The price version stays while its rates do. Its fault
// names the field.
func (d Draft) Replace(current *Model, rates money.Rates, now time.Time, id ids.PriceVersionID) (Model, error) {
	if rates.Unit != d.Category.Unit() {
		return Model{}, invalid("category", "is priced "+d.Category.Unit().String())
	}
	announced := time.Time{}
	if current != nil {
		announced = current.DeprecatedAt
		d.Successor = orElse(d.Successor, current.Successor)
	}
	var err error
	if d.DeprecatedAt, err = deprecate(announced, d.DeprecatedAt, now); err != nil {
		return Model{}, err
	}
	if current == nil {
		first := price.First(rates, now, id)
		return Model{Draft: d, CreatedAt: first.ValidFrom, Price: first}, nil
	}
	next := *current
	next.Draft = d
	next.Price = current.Price.Succeed(rates, now, id)
	return next, nil
}

// deprecate is when the model goes away once wanted is asked for. What was
// announced stands unless another moment is, which gives consumers Notice or
// more time than they had; it cannot be taken back, only put off.
func deprecate(announced, wanted, now time.Time) (time.Time, error) {
	putOff := !announced.IsZero() && !wanted.Before(announced)
	switch {
	case wanted.IsZero():
		return announced, nil
	case wanted.Year() > maxYear:
		return time.Time{}, invalid("deprecated_at", "is too far ahead")
	case !putOff && wanted.Before(now.Add(Notice)):
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidValue, "deprecated_at must be at least %d days ahead",
			Notice/(24*time.Hour)).On("deprecated_at")
	}
	return wanted, nil
}
