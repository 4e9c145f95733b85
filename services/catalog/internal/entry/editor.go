package entry

import (
	"context"
	"io"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Store keeps the entries.
type Store interface {
	// Put replaces the model of this id by what decide makes of the current
	// one, nil when there is none, while no other Put runs. decide may be
	// called more than once; a result equal to the current model, and an error,
	// write nothing.
	Put(ctx context.Context, id string, decide func(current *Model) (Model, error)) (Model, error)
}

// Editor carries out what operators decide.
type Editor struct {
	Store  Store
	Clock  clock.Clock
	Random io.Reader
}

// Put creates or replaces a model. The same call again changes nothing.
func (e *Editor) Put(ctx context.Context, d Draft, rates money.Rates) (Model, error) {
	d, err := d.Normalize()
	if err != nil {
		return Model{}, err
	}
	now := e.Clock.Now()
	version, err := ids.NewPriceVersion(now, e.Random)
	if err != nil {
		return Model{}, err
	}
	return e.Store.Put(ctx, d.ID, func(current *Model) (Model, error) {
		return d.Replace(current, rates, now, version)
	})
}
