// Package entry defines the models of the catalog: what an entry may look like, and what
// becomes of an entry when an operator replaces it.
//
// An id and a slug have at most 128 bytes, and a name at most 128 characters. A model has
// at most 32 capabilities and 64 parameters of at most 48 bytes each, a window of at most
// 100M tokens, and needs a GPU of at most 65,536 GB. The catalog has at most 10,000
// models and 6 MiB of text. The database enforces the same bounds.
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

// Notice is the least time between the announcement that a model goes away and the day on
// which it does.
const Notice = 30 * 24 * time.Hour

// maxYear is the last year that RFC 3339 can write.
const maxYear = 9999

// Category decides which endpoints a model answers, which limits apply and which unit its
// prices are for.
type Category string

// The categories.
const (
	LLM        Category = "llm"
	Multimodal Category = "multimodal"
	Embedding  Category = "embedding"
	Image      Category = "image"
	Audio      Category = "audio"
)

// Unit is the unit that models of the category are priced by.
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

// writesTokens reports whether answers of the category consist of tokens, whose number a
// request can bound.
func (c Category) writesTokens() bool { return c == LLM || c == Multimodal }

// Kind says who serves a model. It is never inferred from the id, because open models
// have vendor prefixes too. It does not change once the model exists, because the ledger knows
// by a price version whether a provider or a vendor serves, and a kind has no price version.
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

// Draft is what an operator decides about a model, except its prices.
type Draft struct {
	ID       string
	Slug     string
	Name     string
	Category Category
	Kind     Kind
	Tier     Tier
	// Active models are in service.
	Active bool
	// ContextTokens is the window, and MaxOutputTokens bounds an answer, both in
	// tokens. Only a model that writes no tokens may have MaxOutputTokens 0.
	ContextTokens   int64
	MaxOutputTokens int64
	// MinVRAMGB is the memory that a GPU needs for the model, in GB; 0 where it is
	// not known.
	MinVRAMGB int32
	// Capabilities and Parameters are sorted and name each thing once.
	Capabilities []string
	Parameters   []string
	// DeprecatedAt is when the model goes away, as announced. A draft without it
	// keeps the time that was announced before.
	DeprecatedAt time.Time
	// Successor is the id of the model that then takes its place; empty for none. A
	// draft without it keeps the successor that was named before. The catalog need not
	// have the successor yet.
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
	// Coming are the prices that are scheduled; zero for none.
	Coming price.Coming
}

// Same reports whether both say the same and have the same price version.
func (m Model) Same(other Model) bool { return m.Equal(other.Draft) && m.Price.ID == other.Price.ID }

// of is the draft for current, whose kind it keeps where it names none. current is nil where there
// is no such model.
func (d Draft) of(current *Model) Draft {
	if current != nil {
		d.Kind = orElse(d.Kind, current.Kind)
	}
	return d
}

// Next returns the model that an operator makes of current by d and rates: what d leaves out is
// filled in, and all of it is checked. current is nil where there is none. Its fault names the field.
func (d Draft) Next(current *Model, rates money.Rates, now time.Time, id ids.PriceVersionID) (Model, error) {
	next, err := d.of(current).Normalize()
	if err != nil {
		return Model{}, err
	}
	return next.Replace(current, rates, now, id)
}

// Replace returns the model once d and rates have taken the place of current, which is
// nil where there was none. The price version stays while its rates stay. Its fault names
// the field.
func (d Draft) Replace(current *Model, rates money.Rates, now time.Time, id ids.PriceVersionID) (Model, error) {
	if rates.Unit != d.Category.Unit() {
		return Model{}, invalid("category", "is priced "+d.Category.Unit().String())
	}
	if current != nil && d.Kind != current.Kind {
		return Model{}, invalid("kind", "does not change once the model exists; give the model another id")
	}
	if rates.PayoutCachedInput != 0 && d.Kind != Gateway {
		return Model{}, invalid("payout_cached_input_price", "is of gateway models only")
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
	if !next.Same(*current) {
		next.Coming = price.Coming{} // it was for the model as it was
	}
	return next, nil
}

// deprecate returns when the model goes away if an operator asks for wanted. Without a
// wish, what was announced stands. A moment after the announced one is taken as it is. Any
// other moment must give consumers Notice.
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
