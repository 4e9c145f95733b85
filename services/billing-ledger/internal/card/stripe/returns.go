package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	sdk "github.com/stripe/stripe-go/v82"

	"svc.internal/services/billing-ledger/internal/card"
)

// FetchReturn implements card.Processor.
func (p *Processor) FetchReturn(ctx context.Context, o card.Object) (card.Return, error) {
	if o.Kind == card.DisputeObject {
		return p.fetchDispute(ctx, o.ID)
	}
	params := &sdk.RefundRetrieveParams{}
	params.AddExpand("payment_intent")
	found, err := p.client.V1Refunds.Retrieve(ctx, url.PathEscape(o.ID), params)
	if err != nil {
		return card.Return{}, failed("fetch a refund", err)
	}
	return p.refundOf(ctx, found)
}

// refundOf is a refund as this service knows it. Its payment is expanded.
func (p *Processor) refundOf(ctx context.Context, r *sdk.Refund) (card.Return, error) {
	checkout, err := p.checkoutOf(ctx, r.PaymentIntent)
	if err != nil {
		return card.Return{}, err
	}
	out := card.Return{Object: card.Object{Kind: card.RefundObject, ID: r.ID}, Checkout: checkout, Key: r.Metadata[ofKey],
		Amount: card.Cents(r.Amount), Currency: string(r.Currency), State: card.ReturnPending}
	if r.PaymentIntent != nil {
		out.PaymentID, out.Livemode = r.PaymentIntent.ID, r.PaymentIntent.Livemode
	}
	switch r.Status {
	case sdk.RefundStatusSucceeded:
		out.State = card.ReturnMade
	case sdk.RefundStatusFailed, sdk.RefundStatusCanceled:
		out.State = card.ReturnFailed
	case sdk.RefundStatusPending, sdk.RefundStatusRequiresAction:
	}
	return out, nil
}

func (p *Processor) fetchDispute(ctx context.Context, id string) (card.Return, error) {
	params := &sdk.DisputeRetrieveParams{}
	params.AddExpand("payment_intent")
	d, err := p.client.V1Disputes.Retrieve(ctx, url.PathEscape(id), params)
	if err != nil {
		return card.Return{}, failed("fetch a dispute", err)
	}
	checkout, err := p.checkoutOf(ctx, d.PaymentIntent)
	if err != nil {
		return card.Return{}, err
	}
	out := card.Return{Object: card.Object{Kind: card.DisputeObject, ID: d.ID}, Checkout: checkout,
		Amount: card.Cents(d.Amount), Currency: string(d.Currency), Livemode: d.Livemode, State: disputeState(d)}
	if d.PaymentIntent != nil {
		out.PaymentID = d.PaymentIntent.ID
	}
	return out, nil
}

// disputeState says where a dispute stands. It counts once its balance transaction takes the money;
// an inquiry takes none.
func disputeState(d *sdk.Dispute) card.ReturnState {
	taken, back := false, false
	for _, b := range d.BalanceTransactions {
		taken, back = taken || b.Amount < 0, back || b.Amount > 0
	}
	switch {
	case !taken:
		return card.ReturnPending
	case back:
		return card.ReturnWon
	case d.Status == sdk.DisputeStatusLost:
		return card.ReturnLost
	}
	return card.ReturnMade
}

// checkoutOf is the checkout of a payment, by its own metadata, or those of the subscription whose
// invoice it paid; empty for none of ours.
func (p *Processor) checkoutOf(ctx context.Context, pi *sdk.PaymentIntent) (string, error) {
	if pi == nil {
		return "", nil
	}
	if c := pi.Metadata[ofCheckout]; c != "" {
		return c, nil
	}
	params := &sdk.InvoicePaymentListParams{Payment: &sdk.InvoicePaymentListPaymentParams{
		Type: sdk.String("payment_intent"), PaymentIntent: sdk.String(pi.ID)}}
	params.Limit = sdk.Int64(1)
	params.AddExpand("data.invoice")
	for paid, err := range p.client.V1InvoicePayments.List(ctx, params) {
		if err != nil {
			return "", failed("look for the invoice of a payment", err)
		}
		if i := paid.Invoice; i != nil && i.Parent != nil && i.Parent.SubscriptionDetails != nil {
			return i.Parent.SubscriptionDetails.Metadata[ofCheckout], nil
		}
		return "", nil
	}
	return "", nil
}

// FetchBalance implements card.Processor.
func (p *Processor) FetchBalance(ctx context.Context, paymentID string) (card.Balance, error) {
	pi, err := p.client.V1PaymentIntents.Retrieve(ctx, url.PathEscape(paymentID), &sdk.PaymentIntentRetrieveParams{})
	if err != nil {
		return card.Balance{}, failed("fetch a payment", err)
	}
	out := card.Balance{Total: card.Cents(pi.AmountReceived)}
	err = p.refunds(ctx, paymentID, func(r *sdk.Refund) bool {
		if r.Status != sdk.RefundStatusFailed && r.Status != sdk.RefundStatusCanceled {
			out.Returned += card.Cents(r.Amount)
		}
		return true
	})
	if err != nil {
		return card.Balance{}, err
	}
	params := &sdk.DisputeListParams{PaymentIntent: sdk.String(paymentID)}
	params.Limit = sdk.Int64(page)
	seen := 0
	for d, err := range p.client.V1Disputes.List(ctx, params) {
		if seen++; err != nil || seen > maxOfPayment {
			return card.Balance{}, failed("list the disputes of a payment", orTooMany(err))
		}
		if s := disputeState(d); s == card.ReturnMade || s == card.ReturnLost {
			out.Returned += card.Cents(d.Amount)
		}
	}
	return out, nil
}

var errTooMany = errors.New("there are too many")

func orTooMany(err error) error {
	if err == nil {
		return errTooMany
	}
	return err
}

// refunds calls each of the refunds of a payment until it returns false.
func (p *Processor) refunds(ctx context.Context, paymentID string, each func(*sdk.Refund) bool) error {
	params := &sdk.RefundListParams{PaymentIntent: sdk.String(paymentID)}
	params.Limit = sdk.Int64(page)
	params.AddExpand("data.payment_intent")
	seen := 0
	for r, err := range p.client.V1Refunds.List(ctx, params) {
		if seen++; err != nil || seen > maxOfPayment {
			return failed("list the refunds of a payment", orTooMany(err))
		}
		if !each(r) {
			return nil
		}
	}
	return nil
}

// Refund implements card.Processor.
func (p *Processor) Refund(ctx context.Context, key, paymentID string, amount card.Cents) (card.Return, error) {
	var made *sdk.Refund
	if err := p.refunds(ctx, paymentID, func(r *sdk.Refund) bool {
		if r.Metadata[ofKey] == key {
			made = r
		}
		return made == nil
	}); err != nil {
		return card.Return{}, err
	}
	if made == nil {
		params := &sdk.RefundCreateParams{PaymentIntent: sdk.String(paymentID), Amount: sdk.Int64(int64(amount)),
			Metadata: map[string]string{ofKey: key}}
		params.SetIdempotencyKey("refund-" + key)
		params.AddExpand("payment_intent")
		var err error
		if made, err = p.client.V1Refunds.Create(ctx, params); err != nil {
			return card.Return{}, refused(err)
		}
	}
	return p.refundOf(ctx, made)
}

// refused tells a refund that will never be made from a call that may be repeated.
func refused(err error) error {
	var e *sdk.Error
	if errors.As(err, &e) && e.Type == sdk.ErrorTypeInvalidRequest && e.HTTPStatusCode == http.StatusBadRequest {
		return fmt.Errorf("%w: %.60s, request %.60s", card.ErrRefused, e.Code, e.RequestID)
	}
	return failed("make a refund", err)
}
