// Package price has the price book: the prices in force, as a copy of the catalog in
// memory that is replaced as a whole. Admission pins the version that it finds here.
// While the catalog is away, the last copy stays in force.
package price

import (
	"sync/atomic"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Model is what admission must know of an active model.
type Model struct {
	ID      string
	Class   limit.Class
	Tier    plan.Tier
	Version ids.PriceVersionID
	Rates   money.Rates
	// Gateway reports whether the model is a gateway model, which vendors alone serve.
	Gateway bool
}

// Book is the current copy. The zero Book has no copy yet. It is safe for concurrent use.
type Book struct {
	models atomic.Pointer[map[string]Model]
}

// Replace puts models in force. It keeps the map.
func (b *Book) Replace(models map[string]Model) { b.models.Store(&models) }

// Loaded reports whether there is a copy.
func (b *Book) Loaded() bool { return b.models.Load() != nil }

// Find returns the model in force, admission_unavailable before the first copy,
// or model_not_found.
func (b *Book) Find(id string) (Model, error) {
	models := b.models.Load()
	if models == nil {
		return Model{}, fault.New(fault.Unavailable, fault.AdmissionUnavailable, "the catalog has not been read yet")
	}
	m, ok := (*models)[id]
	if !ok {
		return Model{}, fault.New(fault.NotFound, fault.ModelNotFound, "there is no such model").On("model")
	}
	return m, nil
}

// Known returns the error of Find.
func (b *Book) Known(id string) error {
	_, err := b.Find(id)
	return err
}
