package peers

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/batch"
)

// Pool implements batch.PlanLedger.
func (b Books) Pool(ctx context.Context, month string) (money.NanoUSD, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Posting.GetPlanPool(ctx, &billingv1.GetPlanPoolRequest{Month: month})
	if err != nil {
		return 0, fmt.Errorf("ask for the pool of a month: %w", err)
	}
	return money.NanoUSD(resp.GetPoolNanoUsd()), nil
}

// CloseMonth implements batch.PlanLedger.
func (b Books) CloseMonth(ctx context.Context, m batch.MonthCount, pool money.NanoUSD) (batch.ClosedMonth, error) {
	ctx, cancel := context.WithTimeout(ctx, monthTimeout)
	defer cancel()
	resp, err := b.Posting.ClosePlanMonth(ctx, &billingv1.ClosePlanMonthRequest{Month: m.Month,
		Through: m.Through.Format(time.DateOnly), PoolNanoUsd: int64(pool), EarnedNanoUsd: int64(m.Earned),
		Providers: m.Providers})
	switch {
	case fault.Is(err, fault.CountsDiffer):
		return batch.ClosedMonth{}, fmt.Errorf("%w: %w", batch.ErrCountsDiffer, err)
	case err != nil:
		return batch.ClosedMonth{}, fmt.Errorf("close a month: %w", err)
	}
	return monthFromProto(resp.GetPlanMonth())
}

// ClosedMonth implements batch.PlanLedger.
func (b Books) ClosedMonth(ctx context.Context, month string) (batch.ClosedMonth, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Posting.GetPlanMonth(ctx, &billingv1.GetPlanMonthRequest{Month: month})
	switch {
	case fault.Is(err, fault.TransitionNotAllowed):
		return batch.ClosedMonth{}, batch.ErrMonthOpen
	case err != nil:
		return batch.ClosedMonth{}, fmt.Errorf("ask for a closed month: %w", err)
	}
	return monthFromProto(resp.GetPlanMonth())
}

func monthFromProto(m *billingv1.PlanMonth) (batch.ClosedMonth, error) {
	through, err := time.Parse(time.DateOnly, m.GetThrough())
	if err != nil {
		return batch.ClosedMonth{}, fmt.Errorf("the day of a closed month: %w", err)
	}
	return batch.ClosedMonth{Month: m.GetMonth(), Through: through, Pool: money.NanoUSD(m.GetPoolNanoUsd()),
		Earned: money.NanoUSD(m.GetEarnedNanoUsd()), Paid: money.NanoUSD(m.GetPaidNanoUsd()),
		Providers: m.GetProviders(), At: m.GetClosedAt().AsTime()}, nil
}

// MonthShares implements batch.PlanLedger.
func (b Books) MonthShares(ctx context.Context, month, token string) ([]batch.PlanShare, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	resp, err := b.Posting.ListPlanShares(ctx, &billingv1.ListPlanSharesRequest{Month: month, PageToken: token})
	if err != nil {
		return nil, "", fmt.Errorf("list the shares of a month: %w", err)
	}
	shares := make([]batch.PlanShare, len(resp.GetShares()))
	for i, m := range resp.GetShares() {
		provider, err := ids.ParseProvider(m.GetProviderId())
		if err != nil {
			return nil, "", fmt.Errorf("provider id of a share: %w", err)
		}
		shares[i] = batch.PlanShare{Provider: provider, Earned: money.NanoUSD(m.GetEarnedNanoUsd()),
			Paid: money.NanoUSD(m.GetPaidNanoUsd()), Withheld: money.NanoUSD(m.GetWithheldNanoUsd()),
			WithheldPaid: money.NanoUSD(m.GetWithheldPaidNanoUsd())}
	}
	return shares, resp.GetNextPageToken(), nil
}

// PostLate implements batch.PlanLedger.
func (b Books) PostLate(ctx context.Context, l batch.Late) (ids.EntryID, error) {
	return b.post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_PlanEarnedLate{
		PlanEarnedLate: &billingv1.PlanEarnedLate{Month: l.Month, Day: l.Day.Format(time.DateOnly),
			ProviderId: l.Provider.String(), AmountNanoUsd: int64(l.Amount)}}})
}

// PostRelease implements batch.PlanLedger.
func (b Books) PostRelease(ctx context.Context, r batch.Release) (ids.EntryID, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Posting.ShareReleased(ctx, &billingv1.ShareReleasedRequest{RequestId: r.Request.String()})
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("post a released share: %w", err)
	}
	return entryOf(resp.GetEntryId())
}
