// Package earning has the providers' earnings in three lists: the accruals by day and the
// settled requests, which settlement compares with its own lines, and the held earnings,
// which operators look at and release.
//
// A provider's earnings by requests of its own owner are held when the platform bore a
// part of them (see usage.Line.Held). Held earnings are accrued like all other earnings,
// and no entry takes a held earning from its balance before the held earning ends. Each
// held earning ends once: it is released or forfeited here, given back with the request's
// refund, forfeited with the rest of the month's plan earnings, or, for orphan work, undone
// with the entry that paid for it.
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

// Bounds of an operator's call. MaxReason is in characters.
const (
	MaxHeldPage = 500
	HeldPage    = 100
	MaxRelease  = 100
	MaxReason   = 200
)

// End is how held earnings ended; empty while they are held.
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

// HeldStore keeps held earnings.
type HeldStore interface {
	// HeldEarnings returns up to limit held earnings of a provider, or of all for the
	// zero one, by request id, after one.
	HeldEarnings(ctx context.Context, provider ids.ProviderID, after ids.RequestID, limit int) ([]Held, error)
	// ReleaseHeld ends what is still held of the requests, in one transaction, and
	// returns their state after that. It returns the fault of Complete.
	ReleaseHeld(ctx context.Context, requests []ids.RequestID, reason string) ([]Held, error)
	// ForfeitHeld is ReleaseHeld for what is forfeited, and posts it in the same transaction.
	// It also returns the fault of NotByPlan.
	ForfeitHeld(ctx context.Context, newID func() (ids.EntryID, error), requests []ids.RequestID,
		reason string) ([]Held, error)
}

// NotByPlan is the error for earnings that no plan paid for. The books have no entry that
// forfeits them: they end with the refund of their request.
func NotByPlan(request ids.RequestID) error {
	return fault.New(fault.Precondition, fault.TransitionNotAllowed,
		"no plan paid for request %q: refund the request instead", request).On("request_ids")
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

// NotFound is the error for a request of which nothing was ever held.
func NotFound(request string) error {
	return fault.New(fault.NotFound, fault.RequestNotFound, "nothing was ever held of request %q",
		request[:min(len(request), 64)]).On("request_ids")
}

// ListHeld returns a page of held earnings and the cursor of the next page, which is
// empty after the last. A size of 0 is HeldPage.
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

// Release ends what is held of requests, so that it may be paid. Held earnings that ended
// before stay as they are.
func Release(ctx context.Context, store HeldStore, requests []ids.RequestID, reason string) ([]Held, error) {
	if err := checkRuling(requests, reason); err != nil {
		return nil, err
	}
	list, err := store.ReleaseHeld(ctx, requests, reason)
	if err != nil {
		return nil, fmt.Errorf("release held earnings: %w", err)
	}
	return list, nil
}

// Forfeit ends what is held of requests that plans paid for, so that their provider loses it.
// While the month is open the shares of the others rise. The part of a closed month's pool
// that waits is revenue then. newID makes the ids of entries. Held earnings that ended before
// stay as they are.
func Forfeit(
	ctx context.Context, store HeldStore, newID func() (ids.EntryID, error), requests []ids.RequestID, reason string,
) ([]Held, error) {
	if err := checkRuling(requests, reason); err != nil {
		return nil, err
	}
	list, err := store.ForfeitHeld(ctx, newID, requests, reason)
	if err != nil {
		return nil, fmt.Errorf("forfeit held earnings: %w", err)
	}
	return list, nil
}

func checkRuling(requests []ids.RequestID, reason string) error {
	switch {
	case len(requests) == 0 || len(requests) > MaxRelease:
		return invalid("request_ids", "must be 1 to %d", MaxRelease)
	case !account.ValidLabel(reason, 1, MaxReason):
		return invalid("reason", "must have 1 to %d printable characters", MaxReason)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
