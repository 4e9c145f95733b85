package rpc

import (
	"context"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
)

const (
	// maxIdempotencyKey bounds a key, in bytes.
	maxIdempotencyKey = 255
	// checkoutPage is the size of a page of checkouts for which none is asked.
	checkoutPage = 20
)

// ConsumerCheckouts answers users who are signed in about what they pay by card.
type ConsumerCheckouts struct {
	billingv1.UnimplementedCheckoutServiceServer
	Checkouts *card.Checkouts
	Refunds   *card.Refunds
	// ReturnURL is where a page leads if nobody says otherwise.
	ReturnURL string
}

// CreateTopUp opens a page on which a consumer buys credit.
func (s *ConsumerCheckouts) CreateTopUp(
	ctx context.Context, req *billingv1.CreateTopUpRequest,
) (*billingv1.CreateTopUpResponse, error) {
	account, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	key := idempotencyKey(ctx, req.GetIdempotencyKey())
	if !isIdempotencyKey(key) {
		return nil, malformed("idempotency_key")
	}
	amount, err := cents(req.GetAmountUsd())
	if err != nil {
		return nil, err
	}
	c := card.Checkout{ID: card.CheckoutOf(account, card.TopUp, key), Account: account,
		Amount: amount, ReturnURL: req.GetReturnUrl()}
	if c.ReturnURL == "" {
		c.ReturnURL = s.ReturnURL
	}
	opened, err := s.Checkouts.OpenTopUp(ctx, c)
	if err != nil {
		return nil, err
	}
	amounts := []money.NanoUSD{opened.Amount.Nano(), opened.Fee.Nano(), opened.Total().Nano()}
	return &billingv1.CreateTopUpResponse{
		CheckoutId: opened.ID.String(), Url: opened.URL, Amount: amounts[0].Float(), Fee: amounts[1].Float(),
		Total: amounts[2].Float(), AmountUsdStr: amounts[0].String(), FeeUsdStr: amounts[1].String(),
		TotalUsdStr: amounts[2].String(), Processor: opened.Processor, State: checkoutStates[opened.State],
		ExpiresAt: timestamppb.New(opened.Expires),
	}, nil
}

// callersAccount is the consumer account of the user who is signed in.
func callersAccount(ctx context.Context) (ids.AccountID, error) {
	who, ok := serve.User(ctx)
	if !ok {
		return ids.AccountID{}, notSignedIn()
	}
	account, err := ids.ParseAccount(who.Account)
	if err != nil {
		return ids.AccountID{}, notSignedIn()
	}
	return account, nil
}

// cents reads an amount in dollars and whole cents.
func cents(usd string) (card.Cents, error) {
	amount, err := money.ParseUSD(usd)
	if err != nil || amount%card.Cents(1).Nano() != 0 {
		return 0, fault.New(fault.Invalid, fault.InvalidValue, "amount_usd must be dollars in whole cents, from %s to %s",
			card.MinAmount.Nano(), card.MaxAmount.Nano()).On("amount_usd")
	}
	return card.Cents(amount / card.Cents(1).Nano()), nil
}

// isIdempotencyKey reports whether a text is a key: 1 to 255 printable ASCII characters.
func isIdempotencyKey(key string) bool {
	for _, c := range key {
		if c > unicode.MaxASCII || !unicode.IsPrint(c) {
			return false
		}
	}
	return key != "" && len(key) <= maxIdempotencyKey
}

func consumerCheckoutToProto(c card.Checkout) *billingv1.ConsumerCheckout {
	m := &billingv1.ConsumerCheckout{
		CheckoutId: c.ID.String(), Purpose: string(c.Purpose), State: checkoutStates[c.State],
		AmountUsdStr: c.Amount.Nano().String(), FeeUsdStr: c.Fee.Nano().String(), TotalUsdStr: c.Total().Nano().String(),
		Url: c.URL, Processor: c.Processor, Livemode: c.Livemode, Plan: c.Plan,
		CreatedAt: timestamppb.New(c.Created), ExpiresAt: timestamppb.New(c.Expires),
	}
	if !c.Paid.IsZero() {
		m.PaidAt = timestamppb.New(c.Paid)
	}
	return m
}

// GetConsumerCheckout reads a checkout of an account.
func (s *ConsumerCheckouts) GetConsumerCheckout(
	ctx context.Context, req *billingv1.GetConsumerCheckoutRequest,
) (*billingv1.GetConsumerCheckoutResponse, error) {
	account, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	var id card.CheckoutID
	if err := id.UnmarshalText([]byte(req.GetCheckoutId())); err != nil || id.IsZero() {
		return nil, malformed("checkout_id")
	}
	c, err := s.Checkouts.OfAccount(ctx, account, id)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetConsumerCheckoutResponse{Checkout: consumerCheckoutToProto(c)}, nil
}

// ListConsumerCheckouts lists the checkouts of an account.
func (s *ConsumerCheckouts) ListConsumerCheckouts(
	ctx context.Context, req *billingv1.ListConsumerCheckoutsRequest,
) (*billingv1.ListConsumerCheckoutsResponse, error) {
	account, err := callersAccount(ctx)
	if err != nil {
		return nil, err
	}
	var before card.CheckoutID
	if req.GetBefore() != "" {
		if err := before.UnmarshalText([]byte(req.GetBefore())); err != nil {
			return nil, malformed("before")
		}
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = checkoutPage
	}
	page, more, err := s.Checkouts.Page(ctx, account, before, limit)
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListConsumerCheckoutsResponse{Checkouts: make([]*billingv1.ConsumerCheckout, len(page)), More: more}
	for i, c := range page {
		m.Checkouts[i] = consumerCheckoutToProto(c)
	}
	return m, nil
}
