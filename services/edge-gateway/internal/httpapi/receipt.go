package httpapi

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/publicjson"
)

// receiptTimeout bounds the look-up of one receipt.
const receiptTimeout = 10 * time.Second

// receipt serves GET /api/v1/requests/{id}: how a request of the key's own account ended.
// A request of another account is not found.
func (h *Handler) receipt(x *exchange) error {
	who, err := h.authenticateAfresh(x)
	if err != nil {
		return err
	}
	id, err := ids.ParseRequest(x.rest)
	if err != nil {
		return fault.New(fault.NotFound, fault.RequestNotFound, "There is no such request.")
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), receiptTimeout)
	defer cancel()
	resp, err := h.Receipts.GetReceipt(ctx, &billingv1.GetReceiptRequest{RequestId: id.String(), AccountId: who.AccountID})
	if err != nil {
		return apierror.OfPeer(err)
	}
	return h.json(x, publicjson.Append(nil, resp.GetReceipt()))
}
