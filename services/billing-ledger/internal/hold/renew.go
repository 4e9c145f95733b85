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
}

// bounded returns r within its bounds. Without a commit nothing can have been relayed,
// and a commit without a provider is evidence for nobody.
func (r Renewal) bounded() Renewal {
	if r.CommittedAttempt <= 0 || r.Provider.IsZero() {
		return Renewal{Request: r.Request}
	}
	r.Hub = cut(r.Hub, maxText)
	r.RelayedTokens, r.RelayedBytes = max(r.RelayedTokens, 0), max(r.RelayedBytes, 0)
	return r
}

// Leases keeps the leases of running requests.
type Leases interface {
	// Renew extends the leases of open holds and keeps the largest count of each
	// committed attempt. Each request stands once in all. Renew returns the requests
	// whose holds were given back, in no order.
	Renew(ctx context.Context, all []Renewal) (lapsed []ids.RequestID, err error)
}

// Renewer renews leases.
type Renewer struct{ Store Leases }

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
	lapsed, err = r.Store.Renew(ctx, bounded)
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(bounded), err)
	}
	return lapsed, nil
}
