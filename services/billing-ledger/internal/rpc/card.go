package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
)

// Cards answers settlement.
type Cards struct {
	billingv1.UnimplementedCardServiceServer
	Checkouts *card.Checkouts
	Refunds   *card.Refunds
}

// CreateCollateralCheckout opens a page on which a provider pays collateral.
func (s *Cards) CreateCollateralCheckout(
	ctx context.Context, req *billingv1.CreateCollateralCheckoutRequest,
) (*billingv1.CreateCollateralCheckoutResponse, error) {
	c, err := checkoutFromProto(req)
	if err != nil {
		return nil, err
	}
	opened, err := s.Checkouts.OpenCollateral(ctx, c)
	if err != nil {
		return nil, err
	}
	return &billingv1.CreateCollateralCheckoutResponse{Checkout: checkoutToProto(opened)}, nil
}

func checkoutFromProto(req *billingv1.CreateCollateralCheckoutRequest) (card.Checkout, error) {
	c := card.Checkout{Amount: card.Cents(req.GetAmountCents()), ReturnURL: req.GetReturnUrl()}
	if err := c.ID.UnmarshalText([]byte(req.GetCheckoutId())); err != nil {
		return c, malformed("checkout_id")
	}
	if err := c.Provider.UnmarshalText([]byte(req.GetProviderId())); err != nil {
		return c, malformed("provider_id")
	}
	if err := c.Account.UnmarshalText([]byte(req.GetAccountId())); err != nil {
		return c, malformed("account_id")
	}
	return c, nil
}

var checkoutStates = map[card.State]billingv1.CheckoutState{
	card.Created: billingv1.CheckoutState_CHECKOUT_STATE_CREATED,
	card.Paid:    billingv1.CheckoutState_CHECKOUT_STATE_PAID,
	card.Expired: billingv1.CheckoutState_CHECKOUT_STATE_EXPIRED,
}

func checkoutToProto(c card.Checkout) *billingv1.Checkout {
	m := &billingv1.Checkout{
		CheckoutId: c.ID.String(), ProviderId: c.Provider.String(), State: checkoutStates[c.State],
		AmountCents: int64(c.Amount), FeeCents: int64(c.Fee), Url: c.URL, Processor: c.Processor, Livemode: c.Livemode,
		CreatedAt: timestamppb.New(c.Created), ExpiresAt: timestamppb.New(c.Expires),
	}
	if !c.Account.IsZero() {
		m.AccountId = c.Account.String()
	}
	if !c.Paid.IsZero() {
		m.PaidAt = timestamppb.New(c.Paid)
	}
	return m
}

// GetCheckout reads a checkout.
func (s *Cards) GetCheckout(
	ctx context.Context, req *billingv1.GetCheckoutRequest,
) (*billingv1.GetCheckoutResponse, error) {
	var id card.CheckoutID
	if err := id.UnmarshalText([]byte(req.GetCheckoutId())); err != nil || id.IsZero() {
		return nil, malformed("checkout_id")
	}
	c, err := s.Checkouts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetCheckoutResponse{Checkout: checkoutToProto(c)}, nil
}

// ListCollateralPayments lists the paid collateral of a provider.
func (s *Cards) ListCollateralPayments(
	ctx context.Context, req *billingv1.ListCollateralPaymentsRequest,
) (*billingv1.ListCollateralPaymentsResponse, error) {
	provider, err := ids.ParseProvider(req.GetProviderId())
	if err != nil {
		return nil, malformed("provider_id")
	}
	payments, err := s.Checkouts.Payments(ctx, provider)
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListCollateralPaymentsResponse{Payments: make([]*billingv1.CollateralPayment, len(payments))}
	for i, p := range payments {
		m.Payments[i] = paymentToProto(p)
	}
	return m, nil
}

func paymentToProto(p card.Payment) *billingv1.CollateralPayment {
	return &billingv1.CollateralPayment{
		CheckoutId: p.Checkout.ID.String(), ProviderId: p.Checkout.Provider.String(), Livemode: p.Checkout.Livemode,
		AmountCents: int64(p.Checkout.Amount), ReversedCents: int64(p.Reversed), RefundedCents: int64(p.Refunded),
		LeftCents: int64(p.Left()), PaidAt: timestamppb.New(p.Checkout.Paid),
		CardRefundUntil: timestamppb.New(p.Checkout.Paid.Add(card.ByCardFor)),
	}
}

var collateralChangeKinds = map[card.ChangeKind]billingv1.CollateralChangeKind{
	card.ChangePaid:         billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_PAID,
	card.ChangeReversed:     billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_REVERSED,
	card.ChangeDisputeWon:   billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_DISPUTE_WON,
	card.ChangeRefundEnded:  billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_REFUND_ENDED,
	card.ChangeRefundFailed: billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_REFUND_FAILED,
	card.ChangeExpired:      billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_EXPIRED,
}

// ListCollateralChanges lists what happened to collateral by card, in order.
func (s *Cards) ListCollateralChanges(
	ctx context.Context, req *billingv1.ListCollateralChangesRequest,
) (*billingv1.ListCollateralChangesResponse, error) {
	changes, err := s.Checkouts.Changes(ctx, req.GetAfter())
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListCollateralChangesResponse{Changes: make([]*billingv1.CollateralChange, len(changes))}
	for i, c := range changes {
		m.Changes[i] = &billingv1.CollateralChange{
			Number: c.Number, Kind: collateralChangeKinds[c.Kind], CheckoutId: c.Checkout.String(),
			ProviderId: c.Provider.String(), Reference: c.Reference, AmountCents: int64(c.Amount),
			Livemode: c.Livemode, At: timestamppb.New(c.At),
		}
		if !c.Entry.IsZero() {
			m.Changes[i].EntryId = c.Entry.String()
		}
	}
	return m, nil
}

var refundStates = map[card.RefundState]billingv1.CollateralRefundState{
	card.Asked:    billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_ASKED,
	card.ByCard:   billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_BY_CARD,
	card.FromBank: billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_FROM_BANK,
	card.Reversed: billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_REVERSED,
}

// RefundCollateral gives a part of a payment back.
func (s *Cards) RefundCollateral(
	ctx context.Context, req *billingv1.RefundCollateralRequest,
) (*billingv1.RefundCollateralResponse, error) {
	r := card.Refund{Purpose: card.Collateral, By: card.BySettlement, Amount: card.Cents(req.GetAmountCents())}
	if err := r.ID.UnmarshalText([]byte(req.GetRefundId())); err != nil {
		return nil, malformed("refund_id")
	}
	if err := r.Checkout.UnmarshalText([]byte(req.GetCheckoutId())); err != nil || r.Checkout.IsZero() {
		return nil, malformed("checkout_id")
	}
	stands, err := s.Refunds.Ask(ctx, r)
	if err != nil {
		return nil, err
	}
	return &billingv1.RefundCollateralResponse{State: refundStates[stands.State], Attempt: int32(stands.Attempt)}, nil
}

// CardWebhooks answers gateways.
type CardWebhooks struct {
	billingv1.UnimplementedCardWebhookServiceServer
	Receiver *card.Receiver
}

// Receive keeps an event of the card processor.
func (s *CardWebhooks) Receive(
	ctx context.Context, req *billingv1.ReceiveRequest,
) (*billingv1.ReceiveResponse, error) {
	if p := req.GetProcessor(); p != "" && p != s.Receiver.Processor {
		return nil, fault.New(fault.Invalid, fault.InvalidSignature, "The signature is of another card processor.")
	}
	if err := s.Receiver.Receive(ctx, req.GetBody(), req.GetSignature()); err != nil {
		return nil, err
	}
	return &billingv1.ReceiveResponse{}, nil
}
