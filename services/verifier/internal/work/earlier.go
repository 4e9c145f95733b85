package work

import (
	"context"
	"errors"

	"svc.internal/services/verifier/internal/keep"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/store"
)

// Earlier finds the answers to earlier probes in their evidence. It implements flow.Earlier.
type Earlier struct {
	Store  *store.Store
	Keeper *keep.Keeper
}

// Answer returns the answer to an earlier probe; nil where it is not kept.
func (e Earlier) Answer(ctx context.Context, id probe.ID) ([]byte, error) {
	o, number, found, err := e.Store.EventOf(ctx, id)
	if err != nil || !found {
		return nil, err
	}
	page, err := e.Keeper.Pieces(ctx, o, number, number)
	switch {
	case errors.Is(err, keep.ErrCleared):
		return nil, nil
	case err != nil:
		return nil, err
	case len(page.Pieces) == 0:
		return nil, nil
	}
	piece, err := replay.Decode(page.Pieces[0].Plain)
	if err != nil || piece.Event.Judged == nil {
		return nil, err
	}
	return piece.Event.Judged.Answer.Raw, nil
}
