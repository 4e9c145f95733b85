package httpapi

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/providerapi"
	"svc.internal/services/edge-gateway/internal/publicjson"
)

// receipt serves GET /api/v1/requests/{id}: how a request of the caller's own account ended.
// A request of another account is not found.
func (h *Handler) receipt(x *exchange) error {
	account, err := h.receiptAccount(x)
	if err != nil {
		return err
	}
	id, err := ids.ParseRequest(x.rest)
	if err != nil {
		return noSuchRequest(err)
	}
	ctx, cancel := context.WithTimeout(x.request.Context(), receiptTimeout)
	defer cancel()
	resp, err := h.Receipts.GetReceipt(ctx, &billingv1.GetReceiptRequest{RequestId: id.String(), AccountId: account})
	if fault.Is(err, fault.RequestNotFound) {
		return noSuchRequest(err)
	}
	if err != nil {
		return apierror.OfPeer(err)
	}
	x.Header().Set("Cache-Control", "no-store")
	return h.json(x, publicjson.Append(nil, resp.GetReceipt()))
}

// noSuchRequest is the one answer for a request of another account, an unknown one, and what is no id.
func noSuchRequest(cause error) error {
	return fault.Wrap(cause, fault.NotFound, fault.RequestNotFound, "There is no such request.")
}

// receiptAccount returns whose receipts a request may read: the account of its consumer key, or of the
// user whose session token it carries.
func (h *Handler) receiptAccount(x *exchange) (string, error) {
	if !providerapi.BySession(x.request.Header) {
		who, err := h.authenticateAfresh(x)
		if err != nil {
			return "", err
		}
		return who.AccountID, nil
	}
	account, err := h.accountOf(x)
	if fault.Is(err, fault.InvalidSession) {
		return "", auth.WrongKey() // nobody knows which of the two it was to be
	}
	return account, err
}
