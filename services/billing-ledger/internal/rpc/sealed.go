package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/earning"
)

// changeKinds are the kinds of changes as the contract names them.
var changeKinds = map[earning.ChangeKind]billingv1.EarningChange_Kind{
	earning.ByCredit:                      billingv1.EarningChange_KIND_PAYG,
	earning.ByPlan:                        billingv1.EarningChange_KIND_PLAN,
	earning.ByOrphan:                      billingv1.EarningChange_KIND_ORPHAN,
	earning.ByRefund:                      billingv1.EarningChange_KIND_REFUND,
	earning.ByReversal:                    billingv1.EarningChange_KIND_REVERSAL,
	earning.NowHeld:                       billingv1.EarningChange_KIND_HELD,
	earning.ChangeKind(earning.Released):  billingv1.EarningChange_KIND_RELEASED,
	earning.ChangeKind(earning.Refunded):  billingv1.EarningChange_KIND_HELD_REFUNDED,
	earning.ChangeKind(earning.Forfeited): billingv1.EarningChange_KIND_FORFEITED,
	earning.ChangeKind(earning.Reversed):  billingv1.EarningChange_KIND_HELD_REVERSED,
}

// ListSealedEarnings lists what changed earnings on a sealed day.
func (s *Accruals) ListSealedEarnings(
	ctx context.Context, req *billingv1.ListSealedEarningsRequest,
) (*billingv1.ListSealedEarningsResponse, error) {
	rows, next, root, err := earning.ListSealed(ctx, s.Store, req.GetDay(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListSealedEarningsResponse{NextPageToken: next, Seal: root,
		Changes: make([]*billingv1.EarningChange, len(rows))}
	for i, r := range rows {
		c := &billingv1.EarningChange{
			Kind: changeKinds[r.Kind], At: timestamppb.New(r.At), ProviderId: r.Provider.String(),
			Account: string(r.Account), Month: r.Month, AmountNanoUsd: int64(r.Amount),
		}
		if !r.Request.IsZero() {
			c.RequestId = r.Request.String()
		}
		if !r.Entry.IsZero() {
			c.EntryId = r.Entry.String()
		}
		m.Changes[i] = c
	}
	return m, nil
}

// ListSealedBalances lists the accounts that moved on a sealed day.
func (s *Accruals) ListSealedBalances(
	ctx context.Context, req *billingv1.ListSealedBalancesRequest,
) (*billingv1.ListSealedBalancesResponse, error) {
	rows, next, err := earning.ListSealedBalances(ctx, s.Store, req.GetDay(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListSealedBalancesResponse{NextPageToken: next,
		Balances: make([]*billingv1.SealedBalance, len(rows))}
	for i, r := range rows {
		m.Balances[i] = &billingv1.SealedBalance{
			ProviderId: r.Provider.String(), Account: string(r.Account), Month: r.Month,
			MovedNanoUsd: int64(r.Moved), BalanceNanoUsd: int64(r.Balance),
		}
	}
	return m, nil
}
