package providerapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// CancelSuffix ends the path of a cancellation behind the payout's id.
const CancelSuffix = "/cancel"

// maxPayoutID is in bytes, far above the length of a payout's id.
const maxPayoutID = 64

// maxChain bounds a chain's number.
const maxChain = 1 << 30

// payout is a payout as its provider sees it. Amounts are dollars in decimal.
type payout struct {
	PayoutID string `json:"payout_id"`
	State    string `json:"state"`
	ChainID  int32  `json:"chain_id"`
	Gross    string `json:"gross_usd_str"`
	Fee      string `json:"fee_usd_str"`
	Net      string `json:"net_usd_str"`
	Address  string `json:"address"`
	// Amount is what is sent, in the token's smallest unit, and Rate the dollars for one coin where a coin is paid.
	Amount string `json:"amount"`
	Rate   string `json:"rate_usd_str"`
	TxHash string `json:"tx_hash"`
	Reason string `json:"reason"`
	// Waiting says what keeps it, in one word; empty for nothing. Ending says that its money is being given back.
	Waiting string `json:"waiting"`
	Ending  bool   `json:"ending"`
	// ApprovalsGiven of ApprovalsNeeded operators have approved. The provider does not hear who.
	ApprovalsGiven  int32  `json:"approvals_given"`
	ApprovalsNeeded *int32 `json:"approvals_needed"`

	RequestedAt *time.Time `json:"requested_at"`
	ChangedAt   *time.Time `json:"changed_at"`
}

func payoutOf(p *settlementv1.Payout) payout {
	return payout{
		PayoutID: p.GetPayoutId(), State: strings.ToLower(strings.TrimPrefix(p.GetState().String(), "PAYOUT_STATE_")),
		ChainID: p.GetChainId(), Gross: p.GetGrossUsdStr(), Fee: p.GetFeeUsdStr(), Net: p.GetNetUsdStr(),
		Address: p.GetAddress(), Amount: p.GetAmount(), Rate: p.GetRateUsdStr(), TxHash: p.GetTxHash(), Reason: p.GetReason(),
		Waiting: p.GetWaiting(), Ending: p.GetEnding(), ApprovalsGiven: p.GetApprovalsGiven(),
		ApprovalsNeeded: p.ApprovalsNeeded, RequestedAt: moment(p.GetRequestedAt()),
		ChangedAt: moment(p.GetChangedAt()),
	}
}

// payoutTerms are the terms of the provider's next payout. Amounts are dollars in decimal, before the fee.
type payoutTerms struct {
	Minimum string        `json:"minimum_usd_str"`
	Maximum string        `json:"maximum_usd_str"`
	Chains  []payoutChain `json:"chains"`
	// IntervalSeconds is how often the provider may ask on a chain, and NextAt when it may ask again on its settlement
	// chain; null where it need not wait.
	IntervalSeconds int32      `json:"interval_seconds"`
	NextAt          *time.Time `json:"next_at"`
	// A payout of at most Alone is approved by itself while all of a day are within a bound. Above OneOperator two
	// operators must approve.
	Alone       string `json:"alone_usd_str"`
	OneOperator string `json:"one_operator_usd_str"`
}

// payoutChain is what is paid on a chain, and for what fee.
type payoutChain struct {
	ChainID     int32  `json:"chain_id"`
	TokenSymbol string `json:"token_symbol"`
	Fee         string `json:"fee_usd_str"`
}

// payoutTermsOf is nil where settlement states no terms.
func payoutTermsOf(t *settlementv1.PayoutTerms) *payoutTerms {
	if t == nil {
		return nil
	}
	out := &payoutTerms{Minimum: t.GetMinimumUsdStr(), Maximum: t.GetMaximumUsdStr(), Chains: []payoutChain{},
		IntervalSeconds: t.GetIntervalSeconds(), NextAt: moment(t.GetNextAt()), Alone: t.GetAloneUsdStr(),
		OneOperator: t.GetOneOperatorUsdStr()}
	for _, c := range t.GetChains() {
		out.Chains = append(out.Chains, payoutChain{c.GetChainId(), c.GetTokenSymbol(), c.GetFeeUsdStr()})
	}
	return out
}

// Payouts answers GET /api/v1/provider/payouts, one page of the provider's payouts, newest first, with the terms of the
// next one, which a provider key may read, and POST, by which the owner asks for one.
func (a *API) Payouts(ctx context.Context, c Call) (Answer, error) {
	if c.Method == http.MethodPost {
		return a.requestPayout(ctx, c)
	}
	provider, err := a.keyOrSession(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	req := &settlementv1.ListPayoutsRequest{ProviderId: provider}
	if req.Page, err = number(c.Query, "page"); err != nil {
		return Answer{}, err
	}
	if req.PageSize, err = number(c.Query, "page_size"); err != nil {
		return Answer{}, err
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Payouts.ListPayouts(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	list := make([]payout, 0, len(resp.GetList()))
	for _, p := range resp.GetList() {
		list = append(list, payoutOf(p))
	}
	return answer(http.StatusOK, struct {
		List     []payout     `json:"list"`
		Total    int32        `json:"total"`
		Page     int32        `json:"page"`
		PageSize int32        `json:"page_size"`
		Terms    *payoutTerms `json:"terms"`
	}{list, resp.GetTotal(), resp.GetPage(), resp.GetPageSize(), payoutTermsOf(resp.GetTerms())})
}

// requestPayout asks for a payout of amount_usd before the fee, on the settlement chain, which chain_id may name.
func (a *API) requestPayout(ctx context.Context, c Call) (Answer, error) {
	req := &settlementv1.RequestPayoutRequest{}
	var chain int64
	who, err := a.owner(ctx, c, actPayout, member{name: "amount_usd", amount: &req.AmountUsd, required: true},
		member{name: "chain_id", number: &chain, limit: maxChain})
	if err != nil {
		return Answer{}, err
	}
	req.ProviderId, req.IdempotencyKey, req.Actor = who.ProviderID, who.IdempotencyKey, who.Actor
	req.ChainId = int32(chain)
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Payouts.RequestPayout(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusCreated, payoutOf(resp.GetPayout()))
}

// CancelPayout answers POST /api/v1/provider/payouts/{payout_id}/cancel: it takes a payout back that has no transaction
// yet. It is idempotent.
func (a *API) CancelPayout(ctx context.Context, c Call) (Answer, error) {
	who, err := a.owner(ctx, c, actPayoutCancel)
	if err != nil {
		return Answer{}, err
	}
	id, err := url.PathUnescape(strings.TrimSuffix(c.Rest, CancelSuffix))
	if err != nil || len(id) > maxPayoutID || !utf8.ValidString(id) {
		id = "" // no payout has it
	}
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Payouts.CancelPayout(called, &settlementv1.CancelPayoutRequest{ProviderId: who.ProviderID,
		PayoutId: id, Actor: who.Actor})
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, payoutOf(resp.GetPayout()))
}

// Convert answers POST /api/v1/provider/convert: earnings that may be paid out become credit of the same user, at par.
func (a *API) Convert(ctx context.Context, c Call) (Answer, error) {
	req := &settlementv1.ConvertRequest{}
	who, err := a.owner(ctx, c, actConvert, member{name: "amount_usd", amount: &req.AmountUsd, required: true})
	if err != nil {
		return Answer{}, err
	}
	req.ProviderId, req.IdempotencyKey, req.Actor = who.ProviderID, who.IdempotencyKey, who.Actor
	called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	resp, err := a.peers.Payouts.Convert(called, req)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	return answer(http.StatusOK, struct {
		ConversionID string `json:"conversion_id"`
		EntryID      string `json:"entry_id"`
	}{resp.GetConversionId(), resp.GetEntryId()})
}
