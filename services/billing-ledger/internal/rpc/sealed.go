package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/earning"
)

// changeKinds are the kinds of changes as the contract names them.
var changeKinds = map[earning.ChangeKind]billingv1.EarningChange_Kind{
	earning.ByCredit:                      billingv1.EarningChange_KIND_PAYG,
	earning.ByPlan:                        billingv1.EarningChange_KIND_PLAN,
	earning.ByOrphan:                      billingv1.EarningChange_KIND_ORPHAN,
	earning.ByRefund:                      billingv1.EarningChange_KIND_REFUND,
	earning.ByEntry:                       billingv1.EarningChange_KIND_ENTRY,
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
			EntryKind: string(r.EntryKind), BusinessId: r.BusinessID,
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

// GetProviderBalances says where the earnings of a provider stand.
func (s *Accruals) GetProviderBalances(
	ctx context.Context, req *billingv1.GetProviderBalancesRequest,
) (*billingv1.GetProviderBalancesResponse, error) {
	provider, err := ids.ParseProvider(req.GetProviderId())
	if err != nil {
		return nil, malformed("provider_id")
	}
	b, err := s.Store.ProviderBalances(ctx, provider)
	if err != nil {
		return nil, err
	}
	m := &billingv1.GetProviderBalancesResponse{
		AccruedNanoUsd: int64(b.Accrued), HeldNanoUsd: int64(b.Held), PayableNanoUsd: int64(b.Payable),
		InFlightNanoUsd: int64(b.InFlight), PaidNanoUsd: int64(b.Paid), ConvertedNanoUsd: int64(b.Converted),
		OwedNanoUsd: int64(b.Owed), CollateralNanoUsd: int64(b.Collateral), SlashEscrowNanoUsd: int64(b.Escrow),
		RefundPendingNanoUsd: int64(b.Refund),
	}
	for _, p := range b.Pending {
		m.Pending = append(m.Pending, &billingv1.MonthEarned{
			Month: p.Month, AmountNanoUsd: int64(p.Amount), HeldNanoUsd: int64(p.Held),
		})
	}
	return m, nil
}
