package providerapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// collateralChain is a chain that takes collateral, as agents read it.
type collateralChain struct {
	ChainID         int64  `json:"chain_id"`
	ChainName       string `json:"chain_name"`
	ContractAddress string `json:"contract_address"`
	// TokenAddress is empty for a chain's coin.
	TokenAddress  string `json:"token_address"`
	TokenSymbol   string `json:"token_symbol"`
	TokenDecimals int32  `json:"token_decimals"`
	// MinCollateral is in whole tokens.
	MinCollateral float64 `json:"min_collateral"`
	RPCURL        string  `json:"rpc_url"`
	ExplorerURL   string  `json:"explorer_url"`
	FaucetURL     string  `json:"faucet_url"`
}

// cardTerms is collateral by card, in dollars.
type cardTerms struct {
	Available         bool    `json:"available"`
	Currency          string  `json:"currency"`
	MinCollateral     float64 `json:"min_collateral"`
	SettlementChainID int64   `json:"settlement_chain_id"`
}

// Contract answers GET /api/v1/provider/collateral/contract: the chains on which
// collateral may be deposited, and cards apart. It needs no key.
func (a *API) Contract(ctx context.Context, _ Call) (Answer, error) {
	resp, _, err := a.contracts.get(ctx)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	chains := make([]collateralChain, 0, len(resp.GetContracts()))
	for _, c := range resp.GetContracts() {
		chains = append(chains, collateralChain{
			ChainID: c.GetChainId(), ChainName: c.GetChainName(), ContractAddress: c.GetContractAddress(),
			TokenAddress: c.GetTokenAddress(), TokenSymbol: c.GetTokenSymbol(), TokenDecimals: c.GetTokenDecimals(),
			MinCollateral: wholeNumber(c.GetMinimum(), c.GetTokenDecimals()), RPCURL: c.GetRpcUrl(),
			ExplorerURL: c.GetExplorerUrl(), FaucetURL: c.GetFaucetUrl(),
		})
	}
	body, err := enveloped(struct {
		Chains []collateralChain `json:"chains"`
		Card   cardTerms         `json:"card"`
	}{chains, cardTerms{Available: resp.GetCard().GetAvailable(), Currency: "USD",
		MinCollateral:     dollars(resp.GetCard().GetMinimumNanoUsd()),
		SettlementChainID: resp.GetCard().GetSettlementChainId()}})
	if err != nil {
		return Answer{}, err
	}
	out := ok(body)
	out.Header = http.Header{"Cache-Control": {publicCache}}
	return out, nil
}

// collateralPosition is what one depositor has put behind the provider, in whole tokens.
type collateralPosition struct {
	Depositor string     `json:"depositor"`
	Free      string     `json:"free"`
	Escrow    string     `json:"escrow"`
	RefundAt  *time.Time `json:"refund_at"`
	ExitAt    *time.Time `json:"exit_at"`
}

// chainCollateral is the collateral on one chain, in whole tokens.
type chainCollateral struct {
	ChainID     int64  `json:"chain_id"`
	TokenSymbol string `json:"token_symbol"`
	Free        string `json:"free"`
	Escrow      string `json:"escrow"`
	Minimum     string `json:"minimum"`
	Confirmed   bool   `json:"confirmed"`
	// Leaving is what of free is on its way back, and Missing what must be free beside it.
	Leaving   string               `json:"leaving"`
	Missing   string               `json:"missing"`
	Positions []collateralPosition `json:"positions"`
}

// cardCollateral is the collateral that was paid by card.
type cardCollateral struct {
	Available bool   `json:"available"`
	Free      string `json:"free_usd_str"`
	Escrow    string `json:"escrow_usd_str"`
	Minimum   string `json:"minimum_usd_str"`
	Confirmed bool   `json:"confirmed"`
	Reversed  bool   `json:"reversed"`
	// Leaving is what a refund is paying, which is no longer free, and Missing what must be
	// free beside it. Owed is what the provider owes.
	Leaving string `json:"leaving_usd_str"`
	Missing string `json:"missing_usd_str"`
	Owed    string `json:"owed_usd_str"`
}

// refundPart is what a refund pays to one depositor, or to one card.
type refundPart struct {
	ChainID     int64  `json:"chain_id"`
	Depositor   string `json:"depositor"`
	CheckoutID  string `json:"checkout_id"`
	AmountCents int64  `json:"amount_cents"`
	State       string `json:"state"`
	// PaidBy is chain, card or bank once it is paid. A chain has its transaction, and the
	// amount in whole tokens.
	PaidBy string `json:"paid_by"`
	TxHash string `json:"tx_hash"`
	Amount string `json:"amount"`
	// Attempt counts how often a card was asked to take the part, from 1; 0 on a chain.
	Attempt int32 `json:"attempt"`
}

// collateralRefund is a refund of all collateral.
type collateralRefund struct {
	RefundID string       `json:"refund_id"`
	State    string       `json:"state"`
	AskedAt  *time.Time   `json:"asked_at"`
	DueAt    *time.Time   `json:"due_at"`
	EndedAt  *time.Time   `json:"ended_at"`
	Parts    []refundPart `json:"parts"`
}

// collateralState is what stands behind a provider. The first four members are those that agents read: amounts are in
// dollars there, and coins have no price.
type collateralState struct {
	HasCollateral  bool    `json:"has_collateral"`
	Required       bool    `json:"required"`
	AmountRequired float64 `json:"amount_required"`
	Collateral     float64 `json:"collateral"`

	Source            string            `json:"source"`
	SettlementChainID int64             `json:"settlement_chain_id"`
	ChosenChainID     int64             `json:"chosen_chain_id"`
	Chains            []chainCollateral `json:"chains"`
	Card              cardCollateral    `json:"card"`
	Refund            *collateralRefund `json:"refund"`
	// Refunds are the last ones, the newest first, the open one among them.
	Refunds     []collateralRefund `json:"refunds"`
	Suspensions []string           `json:"suspensions"`
}

// stablecoin is the token whose amounts are dollars.
const stablecoin = "USDC"

func collateralOf(c *settlementv1.ProviderCollateral) collateralState {
	card := c.GetCard()
	out := collateralState{
		HasCollateral: c.GetConfirmed(), Required: true, AmountRequired: dollars(card.GetMinimumNanoUsd()),
		Collateral: dollars(card.GetFreeNanoUsd()), Source: c.GetSource(), SettlementChainID: c.GetSettlementChainId(),
		ChosenChainID: c.GetChosenChainId(), Chains: []chainCollateral{}, Suspensions: []string{},
		Refunds: []collateralRefund{},
		Card: cardCollateral{card.GetAvailable(), usd(card.GetFreeNanoUsd()), usd(card.GetEscrowNanoUsd()),
			usd(card.GetMinimumNanoUsd()), card.GetConfirmed(), card.GetReversed(), usd(card.GetLeavingNanoUsd()),
			usd(card.GetMissingNanoUsd()), usd(card.GetOwedNanoUsd())},
	}
	out.Suspensions = append(out.Suspensions, c.GetCauses()...)
	decimals := map[int64]int32{}
	for _, chain := range c.GetChains() {
		d := chain.GetTokenDecimals()
		decimals[chain.GetChainId()] = d
		one := chainCollateral{chain.GetChainId(), chain.GetTokenSymbol(), wholeTokens(chain.GetFree(), d),
			wholeTokens(chain.GetEscrow(), d), wholeTokens(chain.GetMinimum(), d), chain.GetConfirmed(),
			wholeTokens(chain.GetLeaving(), d), wholeTokens(chain.GetMissing(), d),
			make([]collateralPosition, 0, len(chain.GetPositions()))}
		if chain.GetTokenSymbol() == stablecoin {
			out.Collateral += wholeNumber(chain.GetFree(), d)
		}
		for _, p := range chain.GetPositions() {
			one.Positions = append(one.Positions, collateralPosition{p.GetDepositor(), wholeTokens(p.GetFree(), d),
				wholeTokens(p.GetEscrow(), d), moment(p.GetRefundAt()), moment(p.GetExitAt())})
		}
		out.Chains = append(out.Chains, one)
	}
	if c.GetRefund() != nil {
		r := refundOf(c.GetRefund(), decimals)
		out.Refund = &r
	}
	for _, r := range c.GetRefunds() {
		out.Refunds = append(out.Refunds, refundOf(r, decimals))
	}
	return out
}

// refundOf is a refund whose amounts on chains are of tokens with so many decimals. A part of
// a chain that takes no collateral any more has no amount.
func refundOf(r *settlementv1.CollateralRefund, decimals map[int64]int32) collateralRefund {
	out := collateralRefund{r.GetRefundId(), strings.ToLower(strings.TrimPrefix(r.GetState().String(), "REFUND_STATE_")),
		moment(r.GetAskedAt()), moment(r.GetDueAt()), moment(r.GetEndedAt()), make([]refundPart, 0, len(r.GetParts()))}
	for _, p := range r.GetParts() {
		part := refundPart{p.GetChainId(), p.GetDepositor(), p.GetCheckoutId(), p.GetAmountCents(), p.GetState(),
			p.GetPaidBy(), p.GetTransactionHash(), "", p.GetAttempt()}
		if d, ok := decimals[p.GetChainId()]; ok && p.GetAmount() != "" {
			part.Amount = wholeTokens(p.GetAmount(), d)
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}

// Collateral answers GET and PUT /api/v1/provider/collateral: what stands behind the provider, and the choice of the
// chain on which it is paid. A provider key may read it.
func (a *API) Collateral(ctx context.Context, c Call) (Answer, error) {
	if c.Method == http.MethodPut {
		return a.chooseChain(ctx, c)
	}
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Collateral.GetCollateral(called, &settlementv1.GetCollateralRequest{ProviderId: provider})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, collateralOf(resp.GetCollateral()))
}

// maxChainID is above the numbers of the chains that there are.
const maxChainID = 1 << 31

func (a *API) chooseChain(ctx context.Context, c Call) (Answer, error) {
	req := &settlementv1.SetSettlementChainRequest{}
	o, err := a.owner(ctx, c, actCollateral, member{name: "settlement_chain_id", number: &req.ChainId, limit: maxChainID,
		required: true})
	if err != nil {
		return Answer{}, err
	}
	req.ProviderId = o.ProviderID
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Collateral.SetSettlementChain(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, collateralOf(resp.GetCollateral()))
}

// CollateralRefund answers POST and DELETE /api/v1/provider/collateral/refund: a request for all collateral back, and
// its cancellation.
func (a *API) CollateralRefund(ctx context.Context, c Call) (Answer, error) {
	o, err := a.owner(ctx, c, actCollateral)
	if err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	var refund *settlementv1.CollateralRefund
	if c.Method == http.MethodDelete {
		resp, cancelled := a.peers.Collateral.CancelRefund(called,
			&settlementv1.CancelRefundRequest{ProviderId: o.ProviderID})
		refund, err = resp.GetRefund(), cancelled
	} else {
		resp, asked := a.peers.Collateral.RequestRefund(called, &settlementv1.RequestRefundRequest{ProviderId: o.ProviderID})
		refund, err = resp.GetRefund(), asked
	}
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, refundOf(refund, nil)) // nothing of it is paid yet
}

func invalidAmount(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}
