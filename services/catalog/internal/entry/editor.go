package entry

import (
	"context"
	"io"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Store keeps the entries.
type Store interface {
	// Put replaces the model of this id, at now, with what decide returns for the
	// current one, which is nil where there is none. No other Put runs meanwhile.
	// decide may be called more than once. Nothing is written where it returns an
	// error, or a model that equals the current one. A scheduled change of a model
	// that is replaced is refused.
	Put(ctx context.Context, id string, now time.Time, decide func(current *Model) (Model, error)) (Model, error)
}

// Editor changes entries as operators decide.
type Editor struct {
	Store  Store
	Clock  clock.Clock
	Random io.Reader
}

// Put creates or replaces a model. A second call with the same arguments changes nothing.
func (e *Editor) Put(ctx context.Context, d Draft, rates money.Rates) (Model, error) {
	if _, err := d.Normalize(); err != nil {
		return Model{}, err
	}
	now := e.Clock.Now()
	version, err := ids.NewPriceVersion(now, e.Random)
	if err != nil {
		return Model{}, err
	}
	return e.Store.Put(ctx, d.ID, now, func(current *Model) (Model, error) {
		return d.Next(current, rates, now, version)
	})
}
