package providerapi

import (
	"context"
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/services/edge-gateway/internal/quota"
)

// uncounted are the kinds of failures that cost nothing: a call that was malformed, or that the
// peer could not answer.
var uncounted = []fault.Kind{fault.Invalid, fault.Unavailable}

// counted has a peer asked and counts the call for its network, unless it fails in a kind of
// uncounted.
func (a *API) counted(ctx context.Context, q *quota.Quota, c Call, ask func(context.Context) error) error {
	return a.countedBut(ctx, q, c, uncounted, ask)
}

// countedBut is counted with other kinds of failures that are not counted.
func (a *API) countedBut(
	ctx context.Context, q *quota.Quota, c Call, free []fault.Kind, ask func(context.Context) error,
) error {
	now := a.peers.Clock.Now()
	if err := q.Take(c.From, now); err != nil {
		return err
	}
	err := a.asked(ctx, ask)
	if f, ok := fault.As(err); ok && slices.Contains(free, f.Kind) {
		q.GiveBack(c.From, now)
	}
	return err
}

// asked has a peer asked.
func (a *API) asked(ctx context.Context, ask func(context.Context) error) error {
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if err := ask(called); err != nil {
		return ofPeer(ctx, err)
	}
	return nil
}
