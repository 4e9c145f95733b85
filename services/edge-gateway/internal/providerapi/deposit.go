package providerapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

const (
	// maxReturnURL is in characters.
	maxReturnURL = 1_024
	// maxCardCents is the most that one payment by card is.
	maxCardCents = 1_000_000
)

// depositCall is what a depositor sends on a chain. Texts of bytes are 0x and digits.
type depositCall struct {
	ChainID         int64  `json:"chain_id"`
	Contract        string `json:"contract"`
	ProviderBytes32 string `json:"provider_bytes32"`
	Calldata        string `json:"calldata"`
	// Value is the coin that goes along, in its smallest unit.
	Value string `json:"value"`
	// TokenAddress and ApproveCalldata are the approval to send first; empty with the coin.
	TokenAddress    string `json:"token_address"`
	ApproveCalldata string `json:"approve_calldata"`
}

// depositPage is where to pay by card.
type depositPage struct {
	CheckoutID  string     `json:"checkout_id"`
	URL         string     `json:"url"`
	Processor   string     `json:"processor"`
	AmountCents int64      `json:"amount_cents"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// CollateralDeposit answers POST /api/v1/provider/collateral/deposit: what to call on a chain, in whole tokens and the
// minimum by default, or, without a chain, the page on which to pay by card.
func (a *API) CollateralDeposit(ctx context.Context, c Call) (Answer, error) {
	var chainID int64
	var tokens, usd, returnURL string
	o, err := a.owner(ctx, c, actCollateral,
		member{name: "chain_id", number: &chainID, limit: maxChainID},
		member{name: "amount", text: &tokens, limit: maxAmount},
		member{name: "amount_usd", amount: &usd},
		member{name: "return_url", text: &returnURL, limit: maxReturnURL})
	if err != nil {
		return Answer{}, err
	}
	req := &settlementv1.PrepareDepositRequest{ProviderId: o.ProviderID, IdempotencyKey: o.IdempotencyKey}
	if chainID != 0 {
		units, err := a.depositUnits(ctx, chainID, tokens)
		if err != nil {
			return Answer{}, err
		}
		req.How = &settlementv1.PrepareDepositRequest_Chain{
			Chain: &settlementv1.ChainDeposit{ChainId: chainID, Amount: units}}
	} else {
		units, ok := smallestUnits(usd, 2)
		cents, err := strconv.ParseInt(units, 10, 64)
		if !ok || err != nil || cents > maxCardCents {
			return Answer{}, invalidAmount("amount_usd",
				"must be whole cents, at most %d, where chain_id is not given", maxCardCents)
		}
		req.How = &settlementv1.PrepareDepositRequest_Card{
			Card: &settlementv1.CardDeposit{AmountCents: cents, AccountId: o.AccountID, ReturnUrl: returnURL}}
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Collateral.PrepareDeposit(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	if page := resp.GetPage(); page != nil {
		return answer(http.StatusOK, depositPage{page.GetCheckoutId(), page.GetUrl(), page.GetProcessor(),
			page.GetAmountCents(), moment(page.GetExpiresAt())})
	}
	return answer(http.StatusOK, depositCallOf(chainID, resp.GetCall()))
}

func depositCallOf(chainID int64, call *settlementv1.DepositCall) depositCall {
	out := depositCall{chainID, call.GetContractAddress(), hexText(call.GetProvider()), hexText(call.GetCalldata()),
		call.GetValue(), call.GetTokenAddress(), ""}
	if len(call.GetApproveCalldata()) > 0 {
		out.ApproveCalldata = hexText(call.GetApproveCalldata())
	}
	return out
}

// depositUnits returns an amount in whole tokens in the smallest unit of a chain's token; without one the minimum.
func (a *API) depositUnits(ctx context.Context, chainID int64, tokens string) (string, error) {
	where, _, err := a.contracts.get(ctx)
	if err != nil {
		return "", ofPeer(ctx, err)
	}
	for _, c := range where.GetContracts() {
		switch {
		case c.GetChainId() != chainID:
			continue
		case tokens == "":
			return c.GetMinimum(), nil
		case !isAmount(tokens):
			return "", invalidAmount("amount", "must be an amount in whole tokens above zero, such as \"25.5\"")
		}
		units, ok := smallestUnits(tokens, c.GetTokenDecimals())
		if !ok {
			return "", invalidAmount("amount", "has more than the %d decimals of the token", c.GetTokenDecimals())
		}
		return units, nil
	}
	return "", invalidAmount("chain_id", "is no chain that takes collateral")
}
