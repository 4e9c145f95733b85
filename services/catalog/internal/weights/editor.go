package weights

import "context"

// Store keeps the sets.
type Store interface {
	// PutWeights makes set the model's own; an empty one takes it away. A set
	// equal to the current one writes nothing. It fails with NotFound
	// (model_not_found).
	PutWeights(ctx context.Context, modelID string, set Set) error
}

// Editor carries out what operators decide.
type Editor struct{ Store Store }

// Put replaces the files of a model's weights. The same call again changes
// nothing.
func (e *Editor) Put(ctx context.Context, modelID, sourceURL string, listings []Listing) (Set, error) {
	set, err := Parse(sourceURL, listings)
	if err != nil {
		return Set{}, err
	}
	return set, e.Store.PutWeights(ctx, modelID, set)
}
