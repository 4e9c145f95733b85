package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/receipt"
)

// GetRequest reads a request of whichever account. A malformed id is as unknown as any other.
func (s *Overview) GetRequest(
	ctx context.Context, req *billingv1.GetRequestRequest,
) (*billingv1.GetRequestResponse, error) {
	request, err := ids.ParseRequest(req.GetRequestId())
	if err != nil {
		return nil, receipt.NotFound()
	}
	f, err := receipt.Find(ctx, s.Requests, request)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.GetRequestResponse{AccountId: f.Account.String(), KeyId: f.Key.String(),
		KeyPrefix: f.KeyPrefix, Receipt: receiptToProto(f.Receipt)}
	addPassedOver(resp.GetReceipt(), f.Receipt.Report)
	if r := f.Refund; r != nil {
		resp.Refund = &billingv1.RequestRefund{EntryId: r.Entry.String(), Kind: r.Kind, AmountUsd: r.Amount.Float(),
			AmountUsdStr: r.Amount.String(), Memo: r.Memo, At: timestamp(r.At)}
	}
	return resp, nil
}

// addPassedOver adds what the router passed over, which only operators see: it says how other
// providers stood.
func addPassedOver(m *billingv1.Receipt, w *hold.RequestReport) {
	if w == nil {
		return
	}
	for i, a := range w.Attempts {
		for _, p := range a.PassedOver {
			m.Attempts[i].PassedOver = append(m.Attempts[i].PassedOver,
				&billingv1.PassedOver{Reason: p.Reason, Count: p.Count})
		}
	}
}
