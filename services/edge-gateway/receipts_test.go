package edgegateway

import (
	"context"
	"strings"

	billingv1 "svc.internal/proto/svc/billing/v1"
)

// receipts has the receipts of account-1 whose ids end in a.
type receipts struct {
	billingv1.UnimplementedReceiptServiceServer
}

func (receipts) GetReceipt(_ context.Context, req *billingv1.GetReceiptRequest) (*billingv1.GetReceiptResponse, error) {
	if req.GetAccountId() != "account-1" || !strings.HasSuffix(req.GetRequestId(), "a") {
		return nil, noReceipt()
	}
	return &billingv1.GetReceiptResponse{Receipt: &billingv1.Receipt{RequestId: req.GetRequestId(), Status: "settled"}},
		nil
}
