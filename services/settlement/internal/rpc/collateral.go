package rpc

import (
	"context"
	"crypto/sha256"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
)

// CollateralStore is what the calls read and write.
type CollateralStore interface {
	View(ctx context.Context, id ids.ProviderID) (position.View, error)
	Choose(ctx context.Context, id ids.ProviderID, to chain.ID) (allowed bool, err error)
	Open(ctx context.Context, provider ids.ProviderID) (r refund.Refund, ok bool, err error)
	Cancel(ctx context.Context, provider ids.ProviderID) (refund.Refund, error)
	Last(ctx context.Context, provider ids.ProviderID, limit int) ([]refund.Refund, error)
	List(ctx context.Context, state refund.State, offset, limit int) ([]refund.Refund, int, error)
}

// Collateral implements CollateralService, for gateways, which have authenticated the provider.
type Collateral struct {
	settlementv1.UnimplementedCollateralServiceServer
	Store CollateralStore
	Terms position.Terms
	// Ask asks for a refund.
	Ask func(ctx context.Context, provider ids.ProviderID) (refund.Refund, error)
	// Cards is nil where no collateral is taken by card.
	Cards billingv1.CardServiceClient
}

// GetCollateral says what stands behind a provider.
func (s *Collateral) GetCollateral(
	ctx context.Context, req *settlementv1.GetCollateralRequest,
) (*settlementv1.GetCollateralResponse, error) {
	view, err := s.view(ctx, req.GetProviderId())
	if err != nil {
		return nil, err
	}
	return &settlementv1.GetCollateralResponse{Collateral: view}, nil
}

func (s *Collateral) view(ctx context.Context, provider string) (*settlementv1.ProviderCollateral, error) {
	id, err := providerFromProto(provider)
	if err != nil {
		return nil, err
	}
	return collateralOf(ctx, s.Store, s.Terms, id)
}

func collateralOf(
	ctx context.Context, store CollateralStore, terms position.Terms, id ids.ProviderID,
) (*settlementv1.ProviderCollateral, error) {
	view, err := store.View(ctx, id)
	if err != nil {
		return nil, err
	}
	out := collateralToProto(id, view, terms)
	last, err := store.Last(ctx, id, maxLastRefunds)
	if err != nil {
		return nil, err
	}
	for _, r := range last {
		said := refundToProto(r)
		out.Refunds = append(out.Refunds, said)
		if r.State == refund.Asked || r.State == refund.Paying {
			out.Refund = said
		}
	}
	return out, nil
}

// maxLastRefunds bounds the refunds that are shown with what stands behind a provider.
const maxLastRefunds = 10

// GetContracts says where collateral is taken.
func (s *Collateral) GetContracts(
	context.Context, *settlementv1.GetContractsRequest,
) (*settlementv1.GetContractsResponse, error) {
	out := &settlementv1.GetContractsResponse{Card: &settlementv1.CardTerms{Available: s.Terms.Card.Available,
		MinimumNanoUsd: int64(s.Terms.Card.Minimum), SettlementChainId: int64(chain.Default)}}
	for _, r := range s.Terms.Chains {
		out.Contracts = append(out.Contracts, &settlementv1.CollateralContract{
			ChainId: int64(r.Chain), ChainName: r.Name, ContractAddress: r.Contract.String(), TokenAddress: tokenOf(r),
			TokenSymbol: r.Asset.Symbol, TokenDecimals: int32(r.Asset.Decimals), Minimum: r.Minimum.String(),
			RpcUrl: r.PublicRPC, ExplorerUrl: r.Explorer, FaucetUrl: r.Faucet,
		})
	}
	return out, nil
}

// tokenOf is empty for the coin.
func tokenOf(r position.Rules) string {
	if r.Asset.Contract.IsZero() {
		return ""
	}
	return r.Asset.Contract.String()
}

// SetSettlementChain chooses the chain on which a provider is paid.
func (s *Collateral) SetSettlementChain(
	ctx context.Context, req *settlementv1.SetSettlementChainRequest,
) (*settlementv1.SetSettlementChainResponse, error) {
	id, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	to := chain.ID(req.GetChainId())
	if to != chain.Ethereum && to != chain.Base && to != chain.SVC {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "there is no such chain").On("settlement_chain_id")
	}
	allowed, err := s.Store.Choose(ctx, id, to)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"your collateral is not confirmed on chain %s", to).On("settlement_chain_id")
	}
	view, err := s.view(ctx, req.GetProviderId())
	if err != nil {
		return nil, err
	}
	return &settlementv1.SetSettlementChainResponse{Collateral: view}, nil
}

// PrepareDeposit says how to deposit.
func (s *Collateral) PrepareDeposit(
	ctx context.Context, req *settlementv1.PrepareDepositRequest,
) (*settlementv1.PrepareDepositResponse, error) {
	id, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	if _, open, err := s.Store.Open(ctx, id); err != nil {
		return nil, err
	} else if open {
		return nil, refund.NotAllowed("your collateral is being refunded")
	}
	switch how := req.GetHow().(type) {
	case *settlementv1.PrepareDepositRequest_Chain:
		return s.depositCall(id, how.Chain)
	case *settlementv1.PrepareDepositRequest_Card:
		return s.depositPage(ctx, id, req.GetIdempotencyKey(), how.Card)
	default:
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "chain or card must be named").On("chain_id")
	}
}

func (s *Collateral) depositCall(
	id ids.ProviderID, d *settlementv1.ChainDeposit,
) (*settlementv1.PrepareDepositResponse, error) {
	r, ok := s.Terms.Of(chain.ID(d.GetChainId()))
	if !ok {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "the chain takes no collateral").On("chain_id")
	}
	amount, err := chain.ParseAmount(d.GetAmount())
	if err != nil || amount.IsZero() || amount.Cmp(maxDeposit) > 0 {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "amount is not one that can be deposited").On("amount")
	}
	subject := contract.Subject(id)
	call := &settlementv1.DepositCall{ContractAddress: r.Contract.String(), Provider: subject[:],
		Calldata: contract.Deposit(subject, amount), Value: amount.String(), TokenAddress: tokenOf(r)}
	if call.TokenAddress != "" {
		call.Value, call.ApproveCalldata = "0", contract.Approve(r.Contract, amount)
	}
	return &settlementv1.PrepareDepositResponse{How: &settlementv1.PrepareDepositResponse_Call{Call: call}}, nil
}

// maxDeposit is the most that the contract holds of all positions.
var maxDeposit, _ = chain.ParseAmount("340282366920938463463374607431768211455")

const (
	maxIdempotencyKey = 255
	// checkoutTimeout is above what the card processor takes for a page.
	checkoutTimeout = 15 * time.Second
)

func (s *Collateral) depositPage(
	ctx context.Context, id ids.ProviderID, key string, d *settlementv1.CardDeposit,
) (*settlementv1.PrepareDepositResponse, error) {
	minimum := int64(s.Terms.Card.Minimum / slash.Cent)
	switch {
	case !s.Terms.Card.Available || s.Cards == nil:
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "no collateral is taken by card").On("card")
	case key == "" || len(key) > maxIdempotencyKey:
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "a payment by card needs an Idempotency-Key").On(
			"idempotency_key")
	case d.GetAmountCents() < minimum:
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "by card at least %d cents are taken", minimum).On("amount")
	}
	called, cancel := context.WithTimeout(ctx, checkoutTimeout)
	defer cancel()
	resp, err := s.Cards.CreateCollateralCheckout(called, &billingv1.CreateCollateralCheckoutRequest{
		CheckoutId: checkoutID(id, key), ProviderId: id.String(), AccountId: d.GetAccountId(),
		AmountCents: d.GetAmountCents(), ReturnUrl: d.GetReturnUrl(),
	})
	if err != nil {
		return nil, err
	}
	c := resp.GetCheckout()
	return &settlementv1.PrepareDepositResponse{How: &settlementv1.PrepareDepositResponse_Page{
		Page: &settlementv1.DepositPage{CheckoutId: c.GetCheckoutId(), Url: c.GetUrl(), Processor: c.GetProcessor(),
			AmountCents: c.GetAmountCents(), ExpiresAt: c.GetExpiresAt()}}}, nil
}

// checkoutID returns the id of the checkout that an Idempotency-Key of a provider stands for: a UUID of version 8, so
// that the same key is the same checkout without a table.
func checkoutID(provider ids.ProviderID, key string) string {
	sum := sha256.Sum256(append(provider[:], key...))
	id := ids.ProviderID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}

// RequestRefund asks for all collateral of a provider.
func (s *Collateral) RequestRefund(
	ctx context.Context, req *settlementv1.RequestRefundRequest,
) (*settlementv1.RequestRefundResponse, error) {
	id, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	r, err := s.Ask(ctx, id)
	if err != nil {
		return nil, err
	}
	return &settlementv1.RequestRefundResponse{Refund: refundToProto(r)}, nil
}

// CancelRefund takes a refund back.
func (s *Collateral) CancelRefund(
	ctx context.Context, req *settlementv1.CancelRefundRequest,
) (*settlementv1.CancelRefundResponse, error) {
	id, err := providerFromProto(req.GetProviderId())
	if err != nil {
		return nil, err
	}
	r, err := s.Store.Cancel(ctx, id)
	if err != nil {
		return nil, err
	}
	return &settlementv1.CancelRefundResponse{Refund: refundToProto(r)}, nil
}

func collateralToProto(id ids.ProviderID, v position.View, t position.Terms) *settlementv1.ProviderCollateral {
	out := &settlementv1.ProviderCollateral{
		ProviderId: id.String(), Confirmed: v.Told.Confirmed, Source: string(v.Told.Source), SettlementChainId: int64(v.Paid),
		ChosenChainId: int64(v.Choice),
		Card: &settlementv1.CardCollateral{FreeNanoUsd: int64(v.Card.Free), EscrowNanoUsd: int64(v.CardEscrow),
			MinimumNanoUsd: int64(t.Card.Minimum), Available: t.Card.Available, Reversed: v.Card.Reversed,
			LeavingNanoUsd: int64(v.CardLeaving), MissingNanoUsd: int64(max(0, t.Card.Minimum-v.Card.Free)),
			OwedNanoUsd: int64(v.Card.Owed),
			Confirmed:   t.Card.Available && v.Card.Free >= t.Card.Minimum},
	}
	for _, c := range v.Causes {
		out.Causes = append(out.Causes, string(c))
	}
	for _, r := range t.Chains {
		out.Chains = append(out.Chains, chainToProto(r, v.Positions, v.Refunding))
	}
	return out
}

func chainToProto(r position.Rules, all []position.Position, refunding bool) *settlementv1.ChainCollateral {
	var free, escrow, leaving chain.Amount
	out := &settlementv1.ChainCollateral{ChainId: int64(r.Chain), TokenSymbol: r.Asset.Symbol,
		TokenDecimals: int32(r.Asset.Decimals), Minimum: r.Minimum.String()}
	for _, p := range all {
		if p.Chain != r.Chain {
			continue
		}
		free, _ = free.Add(p.Free) // all positions of a contract are below 2^128 together
		escrow, _ = escrow.Add(p.Escrow)
		if refunding || !p.RefundAt.IsZero() || !p.ExitAt.IsZero() {
			leaving, _ = leaving.Add(p.Free)
		}
		out.Positions = append(out.Positions, &settlementv1.CollateralPosition{Depositor: p.Depositor.String(),
			Free: p.Free.String(), Escrow: p.Escrow.String(), RefundAt: moment(p.RefundAt), ExitAt: moment(p.ExitAt)})
	}
	missing, ok := r.Minimum.Sub(free)
	if !ok {
		missing = chain.Amount{}
	}
	out.Free, out.Escrow, out.Confirmed = free.String(), escrow.String(), free.Cmp(r.Minimum) >= 0
	out.Leaving, out.Missing = leaving.String(), missing.String()
	return out
}

// refundStates pairs the states with their enum.
var refundStates = map[refund.State]settlementv1.RefundState{
	refund.Asked:     settlementv1.RefundState_REFUND_STATE_ASKED,
	refund.Paying:    settlementv1.RefundState_REFUND_STATE_PAYING,
	refund.Repaying:  settlementv1.RefundState_REFUND_STATE_REPAYING,
	refund.Paid:      settlementv1.RefundState_REFUND_STATE_PAID,
	refund.Cancelled: settlementv1.RefundState_REFUND_STATE_CANCELLED,
}

func refundToProto(r refund.Refund) *settlementv1.CollateralRefund {
	out := &settlementv1.CollateralRefund{RefundId: r.ID.String(), ProviderId: r.Provider.String(),
		State: refundStates[r.State], AskedAt: moment(r.AskedAt), DueAt: moment(r.DueAt), EndedAt: moment(r.EndedAt)}
	for _, p := range r.Parts {
		part := &settlementv1.RefundPart{ChainId: int64(p.Chain), CheckoutId: p.Checkout, AmountCents: p.Cents,
			State: string(p.State), PaidBy: p.PaidBy()}
		if p.ByCard() {
			part.Attempt = int32(p.CardAttempt)
		} else {
			part.Depositor = p.Depositor.String()
		}
		if p.Tx != (chain.Hash{}) {
			part.TransactionHash, part.Amount = p.Tx.String(), p.Amount.String()
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}
