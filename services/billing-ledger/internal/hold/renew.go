package hold

import (
	"context"
	"fmt"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// MaxRenewals bounds the requests of one call.
const MaxRenewals = 1000

// Renewal says that a request still runs, and how much of it was relayed so far.
type Renewal struct {
	Request ids.RequestID
	// CommittedAttempt is the attempt that is being relayed, with its hub and provider.
	// It is 0 before a commit.
	CommittedAttempt int32
	Hub              string
	Provider         ids.ProviderID
	RelayedTokens    int64
	RelayedBytes     int64
	// Pin is what the hold says, for the case that it is not written; nil where the caller does not
	// know.
	Pin *Pin
}

// bounded returns r within its bounds. Without a commit nothing can have been relayed,
// and a commit without a provider is evidence for nobody.
func (r Renewal) bounded() Renewal {
	if r.CommittedAttempt <= 0 || r.Provider.IsZero() {
		return Renewal{Request: r.Request, Pin: r.Pin}
	}
	r.Hub = cut(r.Hub, maxText)
	r.RelayedTokens, r.RelayedBytes = max(r.RelayedTokens, 0), max(r.RelayedBytes, 0)
	return r
}

// Leases keeps the leases of running requests.
type Leases interface {
	// Renew extends the leases of open holds and keeps the largest count of each
	// committed attempt. Each request stands once in all. Renew returns the requests
	// whose holds were given back, and the requests with pins that have no hold, in no
	// order.
	Renew(ctx context.Context, all []Renewal) (lapsed, unwritten []ids.RequestID, err error)
}

// Renewer renews leases. A request may have run for long before its hold is written, if the owner of
// its slice was killed. So Renewer writes the holds that are missing.
type Renewer struct {
	Store Leases
	// Pins writes holds that are not written yet; nil writes none.
	Pins PinWriter
}

// Renew takes at most MaxRenewals renewals. Of several renewals of one request the last
// counts. Renew returns the requests that came too late: their holds were given back, and
// nobody pays for them any more.
func (r *Renewer) Renew(ctx context.Context, all []Renewal) (lapsed []ids.RequestID, err error) {
	if len(all) > MaxRenewals {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "at most %d requests a call", MaxRenewals).On("requests")
	}
	if len(all) == 0 {
		return nil, nil
	}
	place := make(map[ids.RequestID]int, len(all))
	bounded := make([]Renewal, 0, len(all))
	for _, one := range all {
		i, seen := place[one.Request]
		if !seen {
			i = len(bounded)
			place[one.Request] = i
			bounded = append(bounded, Renewal{})
		}
		bounded[i] = one.bounded()
	}
	lapsed, unwritten, err := r.Store.Renew(ctx, bounded)
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(bounded), err)
	}
	if r.Pins == nil || len(unwritten) == 0 {
		return lapsed, nil
	}
	again := make([]Renewal, len(unwritten))
	pins := make([]Pin, len(unwritten))
	for i, request := range unwritten {
		again[i] = bounded[place[request]]
		pins[i] = *again[i].Pin
	}
	if err := r.Pins.Write(ctx, pins); err != nil {
		return nil, fmt.Errorf("write the holds of %d leases: %w", len(pins), err)
	}
	more, _, err := r.Store.Renew(ctx, again)
	if err != nil {
		return nil, fmt.Errorf("renew %d leases of holds just written: %w", len(again), err)
	}
	return append(lapsed, more...), nil
}
