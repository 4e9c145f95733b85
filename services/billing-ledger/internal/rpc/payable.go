package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/payable"
)

// VendorPayables answers billing.v1.VendorPayableAdminService.
type VendorPayables struct {
	billingv1.UnimplementedVendorPayableAdminServiceServer
	Payables *payable.Payables
}

// ListVendorBalances returns one page of what vendors are owed.
func (s *VendorPayables) ListVendorBalances(
	ctx context.Context, req *billingv1.ListVendorBalancesRequest,
) (*billingv1.ListVendorBalancesResponse, error) {
	var after ids.ProviderID
	if req.GetCursor() != "" {
		var err error
		if after, err = ids.ParseProvider(req.GetCursor()); err != nil {
			return nil, malformed("cursor")
		}
	}
	page, more, err := s.Payables.Balances(ctx, after, int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListVendorBalancesResponse{}
	for _, b := range page {
		m := &billingv1.VendorBalance{VendorId: b.Vendor.String(), OwedUsdStr: b.Owed.String(), PaidUsdStr: b.Paid.String(),
			CountedLastMonthUsdStr: b.LastMonth.String()}
		if b.Last != nil {
			m.LastPayment = vendorPaymentToProto(*b.Last)
		}
		for _, w := range b.Waiting {
			m.Waiting = append(m.Waiting, vendorPaymentToProto(w))
		}
		resp.List = append(resp.List, m)
	}
	if more {
		resp.NextCursor = page[len(page)-1].Vendor.String()
	}
	return resp, nil
}

// PayVendor pays a vendor's invoice, or asks for its payment.
func (s *VendorPayables) PayVendor(
	ctx context.Context, req *billingv1.PayVendorRequest,
) (*billingv1.PayVendorResponse, error) {
	invoice, err := invoiceFromProto(req)
	if err != nil {
		return nil, err
	}
	paid, err := s.Payables.Pay(byOperator(ctx), invoice)
	if err != nil {
		return nil, err
	}
	return &billingv1.PayVendorResponse{Payment: vendorPaymentToProto(paid)}, nil
}

func invoiceFromProto(req *billingv1.PayVendorRequest) (payable.Invoice, error) {
	i := payable.Invoice{Note: req.GetNote()}
	var err error
	if i.Vendor, err = ids.ParseProvider(req.GetVendorId()); err != nil {
		return i, malformed("vendor_id")
	}
	var ok bool
	if i.Number, ok = payable.ParseNumber(req.GetInvoice()); !ok {
		return i, malformed("invoice")
	}
	if i.Amount, err = money.ParseUSD(req.GetAmountUsd()); err != nil {
		return i, malformed("amount_usd")
	}
	if i.Counted = i.Amount; req.GetCountedUsd() != "" {
		if i.Counted, err = money.ParseUSD(req.GetCountedUsd()); err != nil {
			return i, malformed("counted_usd")
		}
	}
	return i, nil
}

func vendorPaymentToProto(p payable.Payment) *billingv1.VendorPayment {
	return &billingv1.VendorPayment{
		VendorId: p.Vendor.String(), Invoice: string(p.Number), AmountUsdStr: p.Amount.String(),
		CountedUsdStr: p.Counted.String(), CorrectionUsdStr: p.Correction().String(), State: string(p.State()),
		Note: p.Note, AskedBy: p.AskedBy, AskedAt: timestamp(p.AskedAt), PaidBy: p.PaidBy, PaidAt: timestamp(p.PaidAt),
	}
}
