package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	sdk "github.com/stripe/stripe-go/v82"

	"svc.internal/services/billing-ledger/internal/card"
)

var subscriptionStates = map[sdk.SubscriptionStatus]card.SubscriptionState{
	sdk.SubscriptionStatusActive: card.SubscriptionActive, sdk.SubscriptionStatusTrialing: card.SubscriptionActive,
	sdk.SubscriptionStatusPastDue: card.SubscriptionPastDue, sdk.SubscriptionStatusUnpaid: card.SubscriptionPastDue,
	sdk.SubscriptionStatusCanceled:          card.SubscriptionEnded,
	sdk.SubscriptionStatusIncompleteExpired: card.SubscriptionEnded,
	sdk.SubscriptionStatusIncomplete:        card.SubscriptionIncomplete,
	sdk.SubscriptionStatusPaused:            card.SubscriptionIncomplete,
}

// FetchSubscription implements card.Processor.
func (p *Processor) FetchSubscription(ctx context.Context, id string) (card.Subscription, error) {
	s, err := p.client.V1Subscriptions.Retrieve(ctx, url.PathEscape(id), &sdk.SubscriptionRetrieveParams{})
	if err != nil {
		return card.Subscription{}, failed("fetch a subscription", err)
	}
	out := card.Subscription{ID: s.ID, Checkout: s.Metadata[ofCheckout], Account: s.Metadata[ofAccount],
		Plan: s.Metadata[ofPlan], Livemode: s.Livemode, State: subscriptionStates[s.Status],
		EndsAtPeriodEnd: s.CancelAtPeriodEnd}
	if s.Items != nil && len(s.Items.Data) > 0 {
		out.PeriodEnd = moment(s.Items.Data[0].CurrentPeriodEnd)
	}
	if s.LatestInvoice != nil {
		out.LatestInvoice = s.LatestInvoice.ID
	}
	return out, nil
}

// moment is a time of the processor; zero for none.
func moment(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// FetchInvoice implements card.Processor.
func (p *Processor) FetchInvoice(ctx context.Context, id string) (card.Invoice, error) {
	params := &sdk.InvoiceRetrieveParams{}
	params.AddExpand("payments")
	i, err := p.client.V1Invoices.Retrieve(ctx, url.PathEscape(id), params)
	if err != nil {
		return card.Invoice{}, failed("fetch an invoice", err)
	}
	return p.invoiceOf(ctx, i)
}

// invoiceOf is an invoice as this service knows it. It is paid once its payment has its balance
// transaction.
func (p *Processor) invoiceOf(ctx context.Context, i *sdk.Invoice) (card.Invoice, error) {
	out := card.Invoice{ID: i.ID, Total: card.Cents(i.Total), Currency: string(i.Currency), Livemode: i.Livemode,
		State: card.InvoiceOpen, Tries: int(i.AttemptCount), Made: moment(i.Created)}
	if i.Parent != nil && i.Parent.SubscriptionDetails != nil && i.Parent.SubscriptionDetails.Subscription != nil {
		out.Subscription = i.Parent.SubscriptionDetails.Subscription.ID
	}
	if i.Lines != nil && len(i.Lines.Data) > 0 && i.Lines.Data[0].Period != nil {
		out.PeriodStart, out.PeriodEnd = moment(i.Lines.Data[0].Period.Start), moment(i.Lines.Data[0].Period.End)
	}
	switch i.Status {
	case sdk.InvoiceStatusVoid, sdk.InvoiceStatusUncollectible:
		out.State = card.InvoiceVoid
	case sdk.InvoiceStatusPaid:
		charge, final, err := p.paymentOf(ctx, i)
		if err != nil {
			return card.Invoice{}, err
		}
		if final && i.StatusTransitions != nil {
			out.State, out.Charge, out.Paid = card.InvoicePaid, charge, moment(i.StatusTransitions.PaidAt)
		}
	case sdk.InvoiceStatusDraft, sdk.InvoiceStatusOpen:
	}
	return out, nil
}

// paymentOf fetches the payment that paid an invoice.
func (p *Processor) paymentOf(ctx context.Context, i *sdk.Invoice) (charge card.Charge, final bool, err error) {
	if i.Payments == nil {
		return card.Charge{}, false, nil
	}
	for _, paid := range i.Payments.Data {
		if paid.Status != "paid" || paid.Payment == nil || paid.Payment.PaymentIntent == nil {
			continue
		}
		params := &sdk.PaymentIntentRetrieveParams{}
		params.AddExpand("latest_charge.balance_transaction")
		pi, err := p.client.V1PaymentIntents.Retrieve(ctx, url.PathEscape(paid.Payment.PaymentIntent.ID), params)
		if err != nil {
			return card.Charge{}, false, failed("fetch the payment of an invoice", err)
		}
		charge, final = chargeOf(pi)
		return charge, final, nil
	}
	return card.Charge{}, false, nil
}

// ListInvoices implements card.Processor.
func (p *Processor) ListInvoices(
	ctx context.Context, subscription, cursor string,
) (list []card.Invoice, next string, err error) {
	params := &sdk.InvoiceListParams{Subscription: sdk.String(subscription)}
	params.Limit = sdk.Int64(page)
	params.AddExpand("data.payments")
	if cursor != "" {
		params.StartingAfter = sdk.String(cursor)
	}
	for i, err := range p.client.V1Invoices.List(ctx, params) {
		if err != nil {
			return nil, "", failed("list invoices", err)
		}
		out, err := p.invoiceOf(ctx, i)
		if err != nil {
			return nil, "", err
		}
		if list = append(list, out); len(list) == page {
			return list, out.ID, nil
		}
	}
	return list, "", nil
}

// EndAtPeriodEnd implements card.Processor.
func (p *Processor) EndAtPeriodEnd(ctx context.Context, id string, end bool) error {
	_, err := p.client.V1Subscriptions.Update(ctx, url.PathEscape(id),
		&sdk.SubscriptionUpdateParams{CancelAtPeriodEnd: sdk.Bool(end)})
	return failed("have a subscription end", err)
}

// EndNow implements card.Processor. The processor does not find a subscription that has ended.
func (p *Processor) EndNow(ctx context.Context, id string) error {
	_, err := p.client.V1Subscriptions.Cancel(ctx, url.PathEscape(id), &sdk.SubscriptionCancelParams{})
	err = failed("end a subscription", err)
	if !errors.Is(err, card.ErrNoObject) {
		return err
	}
	s, err := p.FetchSubscription(ctx, id)
	if err == nil && s.State != card.SubscriptionEnded {
		return errors.New("end a subscription: it has not ended")
	}
	return err
}

// listed are the types of events that name what a list has.
var listed = map[sdk.EventType]card.ObjectKind{
	sdk.EventTypeCheckoutSessionCompleted:             card.SessionObject,
	sdk.EventTypeCheckoutSessionAsyncPaymentSucceeded: card.SessionObject,
	sdk.EventTypeInvoicePaid:                          card.InvoiceObject,
	sdk.EventTypeRefundCreated:                        card.RefundObject,
	sdk.EventTypeRefundFailed:                         card.FailedObject,
	sdk.EventTypeChargeDisputeFundsWithdrawn:          card.DisputeObject,
	sdk.EventTypeChargeDisputeFundsReinstated:         card.WonObject,
	sdk.EventTypeChargeDisputeClosed:                  card.LostObject,
}

// List implements card.Processor. It lists events, which the processor keeps for 30 days; a cursor is
// the last one.
func (p *Processor) List(
	ctx context.Context, since time.Time, cursor string,
) (list []card.Object, next string, err error) {
	params := &sdk.EventListParams{CreatedRange: &sdk.RangeQueryParams{GreaterThanOrEqual: since.Unix()}}
	for kind := range listed {
		params.Types = append(params.Types, sdk.String(string(kind)))
	}
	params.Limit = sdk.Int64(page)
	if cursor != "" {
		params.StartingAfter = sdk.String(cursor)
	}
	seen := 0
	for e, err := range p.client.V1Events.List(ctx, params) {
		if err != nil {
			return nil, "", failed("list events", err)
		}
		var object struct {
			ID string `json:"id"`
		}
		if e.Data == nil || json.Unmarshal(e.Data.Raw, &object) != nil {
			return nil, "", errors.New("list events: an event names no object")
		}
		if kind, ok := listed[e.Type]; ok {
			list = append(list, card.Object{Kind: kind, ID: object.ID})
		}
		if seen++; seen == page {
			return list, e.ID, nil
		}
	}
	return list, "", nil
}
