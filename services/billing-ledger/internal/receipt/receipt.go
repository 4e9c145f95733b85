// Package receipt makes the receipt that a consumer reads about one of its requests, from
// the hold, the settled usage and the gateway's report.
package receipt

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Receipt is the receipt of one request. Usage is nil until the request is settled,
// Report until the gateway has reported.
type Receipt struct {
	Request    ids.RequestID
	Model      string
	State      hold.State
	Billing    hold.BillingType
	Price      ids.PriceVersionID
	Rates      money.Rates
	Pinned     bool
	AdmittedAt time.Time
	Usage      *Usage
	Report     *hold.RequestReport
}

// Usage is the settled usage.
type Usage struct {
	Charged             money.NanoUSD
	Discount            money.NanoUSD
	Billable            money.Tokens
	Claimed             money.Tokens
	RecountedCompletion int64
	Provider            ids.ProviderID
	Attempt             int32
	Ending              string
	RouteMode           string
	RequestedProvider   string
	FallbackReason      string
	FirstContentMS      int64
	// Mode is that of usage.Event.
	Mode      int16
	SettledAt time.Time
}

// Store finds the rows of a receipt.
type Store interface {
	// Receipt returns the receipt of a request of this account, or nil.
	Receipt(ctx context.Context, request ids.RequestID, account ids.AccountID) (*Receipt, error)
}

// The hold of a request may be written a moment after its answer, so a receipt that is not found is looked
// for again each pause, until the request is as old as unwritten. An owner of slices takes less to write a
// hold.
const (
	unwritten = 500 * time.Millisecond
	pause     = 50 * time.Millisecond
)

// Get finds a receipt. A request of another account is not found, like a request that
// never existed. c shows the age of the request.
func Get(
	ctx context.Context, store Store, c clock.Clock, request ids.RequestID, account ids.AccountID,
) (*Receipt, error) {
	for {
		r, err := get(ctx, store, request, account)
		if !fault.Is(err, fault.RequestNotFound) || c.Now().Sub(request.Time()).Abs() >= unwritten {
			return r, err
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			return nil, fmt.Errorf("wait for a request that may be known soon: %w", err)
		}
	}
}

func get(ctx context.Context, store Store, request ids.RequestID, account ids.AccountID) (*Receipt, error) {
	r, err := store.Receipt(ctx, request, account)
	if err != nil {
		return nil, fmt.Errorf("read receipt: %w", err)
	}
	if r == nil {
		return nil, NotFound()
	}
	return r, nil
}

// NotFound is the error for a request that this account does not have.
func NotFound() error {
	return fault.New(fault.NotFound, fault.RequestNotFound, "there is no such request")
}

// ProviderName is the gateway's name of the provider of the attempt that served; empty
// when the gateway has not named it.
func (r *Receipt) ProviderName() string {
	if r.Usage == nil || r.Report == nil {
		return ""
	}
	for _, a := range r.Report.Attempts {
		if a.Attempt == r.Usage.Attempt {
			return a.ProviderName
		}
	}
	return ""
}
