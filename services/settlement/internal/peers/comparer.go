// Package peers asks the service that settlement depends on: billing-ledger for what
// it has accrued and settled.
package peers

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/reconcile"
)

// maxPages bounds how much of billing-ledger one comparison reads: 100 pages
// of 10,000 rows.
const maxPages = 100

// Totals sums settlement's own lines.
type Totals interface {
	Totals(ctx context.Context, first time.Time) ([]earning.Total, error)
}

// LedgerComparer compares settlement's lines with the accruals that
// billing-ledger answers for.
type LedgerComparer struct {
	totals   Totals
	accruals billingv1.AccrualServiceClient
	clock    clock.Clock
}

// NewLedgerComparer makes a comparer.
func NewLedgerComparer(totals Totals, accruals billingv1.AccrualServiceClient, clk clock.Clock) *LedgerComparer {
	return &LedgerComparer{totals, accruals, clk}
}

// Compare reads both sides from the first day on and compares them.
func (c *LedgerComparer) Compare(ctx context.Context, first time.Time) (reconcile.Report, error) {
	totals, err := c.totals.Totals(ctx, first)
	if err != nil {
		return reconcile.Report{}, err
	}
	lines, filled := make(map[reconcile.Slot]reconcile.Sum, len(totals)), map[reconcile.Slot]reconcile.Sum{}
	for _, t := range totals {
		slot := reconcile.Slot{Day: t.Day.UTC(), ProviderID: t.ProviderID}
		if t.Lines != 0 || t.Payout != 0 {
			lines[slot] = reconcile.Sum{Payout: t.Payout, Requests: t.Lines}
		}
		if t.Filled > 0 {
			filled[slot] = reconcile.Sum{Payout: t.FilledPayout, Requests: t.Filled}
		}
	}
	accruals, err := c.read(ctx, first)
	if err != nil {
		return reconcile.Report{}, err
	}
	return reconcile.Compare(lines, filled, accruals, c.clock.Now()), nil
}

func (c *LedgerComparer) read(ctx context.Context, first time.Time) (map[reconcile.Slot]reconcile.Sum, error) {
	sums := map[reconcile.Slot]reconcile.Sum{}
	req := &billingv1.ListAccrualsRequest{FirstDay: first.UTC().Format(time.DateOnly)}
	for range maxPages {
		resp, err := c.accruals.ListAccruals(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("read accruals: %w", err)
		}
		for _, a := range resp.GetAccruals() {
			slot, err := slotFromProto(a)
			if err != nil {
				return nil, err
			}
			sums[slot] = reconcile.Sum{Payout: money.NanoUSD(a.GetPayoutNanoUsd()), Requests: a.GetRequests()}
		}
		if resp.GetNextPageToken() == "" {
			return sums, nil
		}
		req.PageToken = resp.GetNextPageToken()
	}
	return nil, fmt.Errorf("read accruals: more than %d pages; compare from a later first day", maxPages)
}

func slotFromProto(a *billingv1.Accrual) (reconcile.Slot, error) {
	day, err := time.Parse(time.DateOnly, a.GetDay())
	if err != nil {
		return reconcile.Slot{}, fmt.Errorf("read accruals: day: %w", err)
	}
	provider, err := ids.ParseProvider(a.GetProviderId())
	if err != nil {
		return reconcile.Slot{}, fmt.Errorf("read accruals: provider: %w", err)
	}
	return reconcile.Slot{Day: day, ProviderID: provider}, nil
}
