package rpc

import (
	"context"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/card"
)

// RefundTopUp gives unspent credit back to the card that paid for it.
func (s *ConsumerCheckouts) RefundTopUp(
	ctx context.Context, req *billingv1.RefundTopUpRequest,
) (*billingv1.RefundTopUpResponse, error) {
	own, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	r, err := refundFromProto(ctx, req, own, true)
	if err != nil {
		return nil, err
	}
	r.By = card.ByConsumer
	stands, err := s.Refunds.AskTopUp(ctx, r)
	if err != nil {
		return nil, err
	}
	return &billingv1.RefundTopUpResponse{Refund: refundToProto(stands)}, nil
}

// askedRefund is what consumers and operators say of a refund alike.
type askedRefund interface {
	GetCheckoutId() string
	GetAmountUsd() string
	GetIdempotencyKey() string
}

func refundFromProto(ctx context.Context, req askedRefund, of ids.AccountID, own bool) (card.Refund, error) {
	r := card.Refund{Account: of, Own: own}
	if err := r.Checkout.UnmarshalText([]byte(req.GetCheckoutId())); err != nil {
		return r, malformed("checkout_id")
	}
	key := idempotencyKey(ctx, req.GetIdempotencyKey())
	if !isIdempotencyKey(key) {
		return r, malformed("idempotency_key")
	}
	r.ID = card.RefundOf(of, own, key)
	if req.GetAmountUsd() == "" {
		return r, nil
	}
	amount, err := money.ParseUSD(req.GetAmountUsd())
	if err != nil || amount <= 0 || amount%card.Cents(1).Nano() != 0 || amount > card.MaxAmount.Nano() {
		return r, fault.New(fault.Invalid, fault.InvalidValue,
			"amount_usd must be dollars in whole cents, at most %s, or left out for all that may be given back",
			card.MaxAmount.Nano()).On("amount_usd")
	}
	r.Amount = card.Cents(amount / card.Cents(1).Nano())
	return r, nil
}

func refundToProto(r card.Refund) *billingv1.TopUpRefund {
	return &billingv1.TopUpRefund{
		RefundId: r.ID.String(), CheckoutId: r.Checkout.String(), AmountUsdStr: r.Amount.Nano().String(),
		State: string(r.State), AskedBy: r.By, Note: r.Note, AskedAt: timestamppb.New(r.AskedAt),
		EndedAt: timestamp(r.EndedAt),
	}
}

// ListTopUpRefunds lists the refunds of the caller's credit.
func (s *ConsumerCheckouts) ListTopUpRefunds(
	ctx context.Context, req *billingv1.ListTopUpRefundsRequest,
) (*billingv1.ListTopUpRefundsResponse, error) {
	own, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	list, next, err := refundsOf(ctx, s.Refunds, own, req)
	if err != nil {
		return nil, err
	}
	for _, r := range list { // a note is for operators
		r.Note = ""
	}
	return &billingv1.ListTopUpRefundsResponse{Refunds: list, NextCursor: next}, nil
}

// pageAsked is a page that is asked for.
type pageAsked interface {
	GetLimit() int32
	GetCursor() string
}

// pageOf reads a page that is asked for; without a limit it has the usual size.
func pageOf(req pageAsked, cursor interface{ UnmarshalText([]byte) error }) (limit int, err error) {
	if req.GetCursor() != "" {
		if err := cursor.UnmarshalText([]byte(req.GetCursor())); err != nil {
			return 0, malformed("cursor")
		}
	}
	if req.GetLimit() == 0 {
		return checkoutPage, nil
	}
	return int(req.GetLimit()), nil
}

func refundsOf(
	ctx context.Context, refunds *card.Refunds, of ids.AccountID, req pageAsked,
) (list []*billingv1.TopUpRefund, next string, err error) {
	var before card.RefundID
	limit, err := pageOf(req, &before)
	if err != nil {
		return nil, "", err
	}
	page, more, err := refunds.OfAccount(ctx, of, before, limit)
	if err != nil {
		return nil, "", err
	}
	for _, r := range page {
		list = append(list, refundToProto(r))
	}
	if more {
		next = page[len(page)-1].ID.String()
	}
	return list, next, nil
}

// CheckoutAdmin answers operators about what accounts pay by card.
type CheckoutAdmin struct {
	billingv1.UnimplementedCheckoutAdminServiceServer
	Checkouts *card.Checkouts
	Refunds   *card.Refunds
}

// ListAccountCheckouts lists what an account pays by card.
func (s *CheckoutAdmin) ListAccountCheckouts(
	ctx context.Context, req *billingv1.ListAccountCheckoutsRequest,
) (*billingv1.ListAccountCheckoutsResponse, error) {
	of, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, malformed("account_id")
	}
	var before card.CheckoutID
	limit, err := pageOf(req, &before)
	if err != nil {
		return nil, err
	}
	page, more, err := s.Checkouts.Page(ctx, of, before, limit)
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListAccountCheckoutsResponse{}
	for _, c := range page {
		m.Checkouts = append(m.Checkouts, consumerCheckoutToProto(c))
	}
	if more {
		m.NextCursor = page[len(page)-1].ID.String()
	}
	return m, nil
}

// ListAccountTopUpRefunds lists the refunds of an account's credit.
func (s *CheckoutAdmin) ListAccountTopUpRefunds(
	ctx context.Context, req *billingv1.ListAccountTopUpRefundsRequest,
) (*billingv1.ListAccountTopUpRefundsResponse, error) {
	of, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, malformed("account_id")
	}
	list, next, err := refundsOf(ctx, s.Refunds, of, req)
	if err != nil {
		return nil, err
	}
	return &billingv1.ListAccountTopUpRefundsResponse{Refunds: list, NextCursor: next}, nil
}

// RefundAccountTopUp gives credit of an account back to the card that paid for it.
func (s *CheckoutAdmin) RefundAccountTopUp(
	ctx context.Context, req *billingv1.RefundAccountTopUpRequest,
) (*billingv1.RefundAccountTopUpResponse, error) {
	of, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, malformed("account_id")
	}
	r, err := refundFromProto(ctx, req, of, false)
	if err != nil {
		return nil, err
	}
	if !account.ValidLabel(req.GetNote(), 1, account.MaxMemo) {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "note must have 1 to %d printable characters",
			account.MaxMemo).On("note")
	}
	ctx = byOperator(ctx)
	r.By, r.Note = operatorName(actor.OfOperator(ctx)), req.GetNote()
	stands, err := s.Refunds.AskTopUp(ctx, r)
	if err != nil {
		return nil, err
	}
	return &billingv1.RefundAccountTopUpResponse{Refund: refundToProto(stands)}, nil
}

// maxOperator bounds what is kept of who asked for a refund, in bytes. The action has the whole name.
const maxOperator = 80

func operatorName(name string) string {
	for len(name) > maxOperator {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}
