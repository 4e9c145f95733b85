package rpc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
)

// maxOperationKey bounds an Idempotency-Key, in bytes.
const maxOperationKey = 255

// Payouts implements PayoutService.
type Payouts struct {
	settlementv1.UnimplementedPayoutServiceServer
	Keeper *payout.Keeper
}

// RequestPayout asks for a payout.
func (s *Payouts) RequestPayout(
	ctx context.Context, req *settlementv1.RequestPayoutRequest,
) (*settlementv1.RequestPayoutResponse, error) {
	amount, err := dollars(req.GetAmountUsd())
	if err != nil {
		return nil, err
	}
	if req.GetChainId() < 0 {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "chain_id must be a chain's number").On("chain_id")
	}
	op, err := operationFromProto(req.GetProviderId(), req.GetIdempotencyKey(), req.GetActor(),
		fmt.Sprintf("payout %d %d", amount, req.GetChainId()))
	if err != nil {
		return nil, err
	}
	p, err := s.Keeper.Request(ctx, op, amount, chain.ID(req.GetChainId()))
	if err != nil {
		return nil, err
	}
	return &settlementv1.RequestPayoutResponse{Payout: s.own(p)}, nil
}

// CancelPayout takes a payout back.
func (s *Payouts) CancelPayout(
	ctx context.Context, req *settlementv1.CancelPayoutRequest,
) (*settlementv1.CancelPayoutResponse, error) {
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	id, err := payoutID(req.GetPayoutId())
	if err != nil {
		return nil, err
	}
	if err := checkActor(req.GetActor()); err != nil {
		return nil, err
	}
	p, err := s.Keeper.CancelOwn(ctx, id, provider, req.GetActor())
	if err != nil {
		return nil, err
	}
	return &settlementv1.CancelPayoutResponse{Payout: s.own(p)}, nil
}

// ListPayouts is one page of a provider's payouts, and the terms of the next one.
func (s *Payouts) ListPayouts(
	ctx context.Context, req *settlementv1.ListPayoutsRequest,
) (*settlementv1.ListPayoutsResponse, error) {
	provider, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	page, err := s.Keeper.OfProvider(ctx, provider, int(req.GetPage()), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	terms, err := s.Keeper.Terms(ctx, provider)
	if err != nil {
		return nil, err
	}
	out := &settlementv1.ListPayoutsResponse{Total: int32(page.Total), Page: int32(page.Number),
		PageSize: int32(page.Length), Terms: termsToProto(terms)}
	for _, p := range page.List {
		out.List = append(out.List, s.own(p))
	}
	return out, nil
}

// own is a payout for its provider, which hears how many operators approved, and not who.
func (s *Payouts) own(p payout.Payout) *settlementv1.Payout {
	out := payoutToProto(s.Keeper, p)
	out.Approvals = nil
	return out
}

func termsToProto(t payout.Terms) *settlementv1.PayoutTerms {
	out := &settlementv1.PayoutTerms{MinimumUsdStr: t.Minimum.String(), MaximumUsdStr: t.Maximum.String(),
		IntervalSeconds: int32(t.Interval.Seconds()), NextAt: moment(t.NextAt), AloneUsdStr: t.Alone.String(),
		OneOperatorUsdStr: t.One.String()}
	for _, c := range t.Chains {
		out.Chains = append(out.Chains, &settlementv1.PayoutChain{ChainId: int32(c.Chain), TokenSymbol: c.Symbol,
			FeeUsdStr: c.Fee.String()})
	}
	return out
}

// Convert turns earnings into credit.
func (s *Payouts) Convert(
	ctx context.Context, req *settlementv1.ConvertRequest,
) (*settlementv1.ConvertResponse, error) {
	amount, err := dollars(req.GetAmountUsd())
	if err != nil {
		return nil, err
	}
	op, err := operationFromProto(req.GetProviderId(), req.GetIdempotencyKey(), req.GetActor(),
		fmt.Sprintf("convert %d", amount))
	if err != nil {
		return nil, err
	}
	c, err := s.Keeper.Convert(ctx, op, amount)
	if err != nil {
		return nil, err
	}
	return &settlementv1.ConvertResponse{ConversionId: c.ID.String(), EntryId: c.Entry.String()}, nil
}

// dollars reads an amount above zero.
func dollars(text string) (money.NanoUSD, error) {
	amount, err := money.ParseUSD(text)
	if err != nil || amount <= 0 {
		return 0, fault.New(fault.Invalid, fault.InvalidValue,
			"amount_usd must be a number of dollars above zero, with at most nine decimals").On("amount_usd")
	}
	return amount, nil
}

// operationFromProto reads who asks under what key. said is all that is asked.
func operationFromProto(provider, key, actor, said string) (payout.Operation, error) {
	id, err := providerFromProto(provider)
	if err != nil {
		return payout.Operation{}, err
	}
	if key == "" || len(key) > maxOperationKey {
		return payout.Operation{}, fault.New(fault.Invalid, fault.InvalidValue, "idempotency_key must have 1 to %d bytes",
			maxOperationKey).On("idempotency_key")
	}
	if err := checkActor(actor); err != nil {
		return payout.Operation{}, err
	}
	return payout.Operation{ProviderID: id, Key: key, Digest: sha256.Sum256([]byte(said)), Actor: actor}, nil
}

var actors = regexp.MustCompile(`^(user:[0-9a-f-]{36}|wallet:0x[0-9a-fA-F]{40})$`)

func checkActor(actor string) error {
	if !actors.MatchString(actor) {
		return fault.New(fault.Invalid, fault.InvalidValue, "actor must be user: and an id, or wallet: and an address").On(
			"actor")
	}
	return nil
}

// payoutID reads the id of a payout that a caller looks for. No payout has a malformed id.
func payoutID(text string) (payout.ID, error) {
	id, err := payout.ParseID(text)
	if err != nil {
		return payout.ID{}, fault.New(fault.NotFound, payout.NotFound, "no such payout").On("payout_id")
	}
	return id, nil
}

// payoutStates pairs the states with their enum.
var payoutStates = map[payout.State]settlementv1.PayoutState{
	payout.Requested: settlementv1.PayoutState_PAYOUT_STATE_REQUESTED,
	payout.Approved:  settlementv1.PayoutState_PAYOUT_STATE_APPROVED,
	payout.Signing:   settlementv1.PayoutState_PAYOUT_STATE_SIGNING,
	payout.Submitted: settlementv1.PayoutState_PAYOUT_STATE_SUBMITTED,
	payout.Confirmed: settlementv1.PayoutState_PAYOUT_STATE_CONFIRMED,
	payout.Failed:    settlementv1.PayoutState_PAYOUT_STATE_FAILED,
	payout.Cancelled: settlementv1.PayoutState_PAYOUT_STATE_CANCELLED,
}

// payoutToProto is a payout for operators, with who approved.
func payoutToProto(k *payout.Keeper, p payout.Payout) *settlementv1.Payout {
	out := &settlementv1.Payout{
		PayoutId: p.ID.String(), ProviderId: p.ProviderID.String(), ChainId: int32(p.Chain), State: payoutStates[p.State],
		GrossUsdStr: p.Gross.String(), FeeUsdStr: p.Fee.String(), NetUsdStr: p.Net().String(), Address: p.Address.String(),
		Reason: p.Reason, Waiting: p.Waiting, Ending: p.EndsAs != "" && !p.State.Final(),
		RequestedAt: moment(p.RequestedAt), ChangedAt: moment(p.ChangedAt),
		ApprovalsNeeded: new(int32(k.ApprovalsNeeded(&p))),
	}
	for _, a := range p.Approvals() {
		out.Approvals = append(out.Approvals, &settlementv1.PayoutApproval{Operator: actor.OperatorName(a.Operator),
			At: moment(a.At)})
	}
	out.ApprovalsGiven = int32(len(out.Approvals))
	if !p.Amount.IsZero() {
		out.Amount = p.Amount.String()
	}
	if p.Quote.Rate != 0 {
		out.RateUsdStr = p.Quote.Rate.String()
	}
	if !p.Transaction.IsZero() {
		out.TxHash = p.Transaction.String()
	}
	return out
}
