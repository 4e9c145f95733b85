// Package earning has what providers earned, in three lists: the accruals by day
// and the settled requests, which settlement compares with what it has recorded,
// and the held earnings, which operators look at and release.
//
// A provider's earnings by requests of its own owner are held when the platform
// bore a part of them (see usage.Line.Held). They are accrued like all others,
// and nothing takes them from the balance that they are part of until their end.
// Each ends once: it is released here, given back with the request's refund,
// forfeited with all that is left of what plans of its month have earned, or, for
// orphan work, undone with the entry that paid for it.
package earning

import (
	"context"
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Bounds of what an operator may ask for. A reason has so many characters.
const (
	MaxHeldPage = 500
	HeldPage    = 100
	MaxRelease  = 100
	MaxReason   = 200
)

// End is how it ended that earnings were held; empty while they are.
type End string

// The ends.
const (
	Released  End = "released"
	Refunded  End = "refunded"
	Forfeited End = "forfeited"
	Reversed  End = "reversed"
)

// Held is what is held of one request's earnings.
type Held struct {
	Request  ids.RequestID
	Account  ids.AccountID
	Provider ids.ProviderID
	Rule     usage.Rule
	// PlanMonth is the month whose plan it was earned by, empty for credit.
	PlanMonth string
	Payout    money.NanoUSD
	HeldAt    time.Time
	// Ended, EndedAt and Reason are zero while it is held.
	Ended   End
	EndedAt time.Time
	Reason  string
}

// HeldStore keeps what is held.
type HeldStore interface {
	// HeldEarnings are up to limit that are held, of a provider or, for the zero
	// one, of all, by request id after one.
	HeldEarnings(ctx context.Context, provider ids.ProviderID, after ids.RequestID, limit int) ([]Held, error)
	// ReleaseHeld ends what is still held of the requests, all in one transaction,
	// and returns how each stands then. It returns what Complete does.
	ReleaseHeld(ctx context.Context, requests []ids.RequestID, reason string) ([]Held, error)
}

// Complete returns a fault unless there is one of found for each request.
func Complete(requests []ids.RequestID, found []Held) error {
	for _, r := range requests {
		if !slices.ContainsFunc(found, func(h Held) bool { return h.Request == r }) {
			return NotFound(r.String())
		}
	}
	return nil
}

// NotFound is the answer for a request of which nothing was ever held.
func NotFound(request string) error {
	return fault.New(fault.NotFound, fault.RequestNotFound, "nothing was ever held of request %q",
		request[:min(len(request), 64)]).On("request_ids")
}

// ListHeld returns a page of what is held, and the cursor of the next, empty after
// the last. A size of 0 is HeldPage.
func ListHeld(
	ctx context.Context, store HeldStore, provider ids.ProviderID, size int, cursor string,
) ([]Held, string, error) {
	if size < 0 || size > MaxHeldPage {
		return nil, "", invalid("page_size", "must be between 1 and %d", MaxHeldPage)
	}
	if size == 0 {
		size = HeldPage
	}
	var after ids.RequestID
	if cursor != "" {
		var err error
		if after, err = ids.ParseRequest(cursor); err != nil {
			return nil, "", invalid("cursor", "is not one of this list")
		}
	}
	list, err := store.HeldEarnings(ctx, provider, after, size+1)
	if err != nil {
		return nil, "", fmt.Errorf("list held earnings: %w", err)
	}
	if len(list) <= size {
		return list, "", nil
	}
	return list[:size], list[size-1].Request.String(), nil
}

// Release ends what is held of requests, so that it may be paid. What had ended
// before stays as it is.
func Release(ctx context.Context, store HeldStore, requests []ids.RequestID, reason string) ([]Held, error) {
	switch {
	case len(requests) == 0 || len(requests) > MaxRelease:
		return nil, invalid("request_ids", "must be 1 to %d", MaxRelease)
	case !account.ValidLabel(reason, 1, MaxReason):
		return nil, invalid("reason", "must have 1 to %d printable characters", MaxReason)
	}
	list, err := store.ReleaseHeld(ctx, requests, reason)
	if err != nil {
		return nil, fmt.Errorf("release held earnings: %w", err)
	}
	return list, nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
