package rpc

import (
	"context"
	"math"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
)

// ConsumerDeposits implements ConsumerDepositService: what DepositService says of the account of the user who is signed
// in, as the public reads it.
type ConsumerDeposits struct {
	settlementv1.UnimplementedConsumerDepositServiceServer
	Deposits *Deposits
}

// account returns the id of the account of the user for whom a call is made.
func (s *ConsumerDeposits) account(ctx context.Context) (string, error) {
	if err := only(ctx, s.Deposits.Gateway); err != nil {
		return "", err
	}
	who, ok := serve.User(ctx)
	if !ok {
		return "", fault.New(fault.Unauthenticated, fault.InvalidSession, "nobody is signed in")
	}
	return who.Account, nil
}

// GetConsumerDepositAddress says where and with what the account is funded.
func (s *ConsumerDeposits) GetConsumerDepositAddress(
	ctx context.Context, _ *settlementv1.GetConsumerDepositAddressRequest,
) (*settlementv1.GetConsumerDepositAddressResponse, error) {
	account, err := s.account(ctx)
	if err != nil {
		return nil, err
	}
	if len(s.Deposits.Chains) == 0 {
		// Nobody is funded on a chain, and no address is taken for that.
		return &settlementv1.GetConsumerDepositAddressResponse{OpenUsdStr: money.NanoUSD(0).String()}, nil
	}
	got, err := s.Deposits.GetDepositAddress(ctx, &settlementv1.GetDepositAddressRequest{AccountId: account})
	if err != nil {
		return nil, err
	}
	out := &settlementv1.GetConsumerDepositAddressResponse{}
	minimum := money.NanoUSD(got.GetMinimumNanoUsd())
	for _, c := range got.GetChains() {
		one := &settlementv1.ConsumerDepositChain{ChainId: small(c.GetChainId()), Name: c.GetName(),
			Address: got.GetAddress(), Assets: c.GetAssets(), Confirmations: small(c.GetConfirmations()),
			MinimumUsd: minimum.Float(), MinimumUsdStr: minimum.String()}
		for _, asset := range c.GetAssets() {
			one.BonusPercent = max(one.GetBonusPercent(), asset.GetBonusPercent())
		}
		out.Chains = append(out.Chains, one)
	}
	list := &settlementv1.ListDepositsResponse{}
	id, err := ids.ParseAccount(account)
	if err == nil {
		err = s.Deposits.open(ctx, id, list)
	}
	open := money.NanoUSD(list.GetOpenNanoUsd())
	out.OpenUsd, out.OpenUsdStr = open.Float(), open.String()
	return out, err
}

// ListConsumerDeposits is one page of what arrived for the account.
func (s *ConsumerDeposits) ListConsumerDeposits(
	ctx context.Context, req *settlementv1.ListConsumerDepositsRequest,
) (*settlementv1.ListConsumerDepositsResponse, error) {
	account, err := s.account(ctx)
	if err != nil {
		return nil, err
	}
	got, err := s.Deposits.ListDeposits(ctx, &settlementv1.ListDepositsRequest{AccountId: account, Page: req.GetPage(),
		PageSize: req.GetPageSize()})
	if err != nil {
		return nil, err
	}
	open, minimum := money.NanoUSD(got.GetOpenNanoUsd()), money.NanoUSD(got.GetMinimumNanoUsd())
	out := &settlementv1.ListConsumerDepositsResponse{Total: got.GetTotal(), Page: got.GetPage(),
		PageSize: got.GetPageSize(), OpenUsd: open.Float(), OpenUsdStr: open.String(), MinimumUsd: minimum.Float(),
		MinimumUsdStr: minimum.String()}
	for _, d := range got.GetList() {
		out.List = append(out.List, s.shown(d))
	}
	for _, o := range got.GetOpen() {
		worth := money.NanoUSD(o.GetValueNanoUsd())
		out.Open = append(out.Open, &settlementv1.ConsumerOpenSum{ChainId: small(o.GetChainId()), Asset: o.GetSymbol(),
			Amount: o.GetTokens(), Transfers: o.GetTransfers(), Usd: worth.Float(), UsdStr: worth.String()})
	}
	return out, nil
}

// shown is a deposit as its consumer sees it.
func (s *ConsumerDeposits) shown(d *settlementv1.Deposit) *settlementv1.ConsumerDeposit {
	cfg, _ := s.Deposits.Chains.Of(chain.ID(d.GetChainId()))
	worth, bonus := money.NanoUSD(d.GetValueNanoUsd()), money.NanoUSD(d.GetBonusNanoUsd())
	out := &settlementv1.ConsumerDeposit{
		ChainId: small(d.GetChainId()), Chain: cfg.Name, Asset: d.GetSymbol(), Amount: d.GetTokens(),
		Usd: worth.Float(), UsdStr: worth.String(), BonusUsd: bonus.Float(), BonusUsdStr: bonus.String(),
		Confirmations: small(d.GetConfirmations()), ConfirmationsNeeded: small(d.GetConfirmationsNeeded()),
		State: d.GetState(), Waits: d.GetWaits(), Note: noteOf(d), TransactionHash: d.GetTransactionHash(),
		Place: small(d.GetPlace()), At: d.GetAt(), EntryId: d.GetEntryId(),
		ReturnTransactionHash: d.GetReturnTransactionHash(),
	}
	if rate := money.NanoUSD(d.GetRateNanoUsd()); rate > 0 {
		out.RateUsd, out.RateUsdStr, out.RateSource, out.RateAt = rate.Float(), rate.String(), d.GetRateSource(),
			d.GetRateAt()
	}
	return out
}

// small is a number as public integers are.
func small(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// notes say in words what a state, or a wait for a credit, means to a consumer.
var (
	notes = map[deposit.State]string{
		deposit.Seen:      "It is on the chain and not final yet.",
		deposit.Final:     "It is final and will be credited.",
		deposit.Credited:  "It is credited.",
		deposit.Unmatched: "It is nothing that is credited by itself. An operator credits or returns it.",
		deposit.Denied:    "It is not accepted from this sender. An operator decides.",
		deposit.Returned:  "It was sent back.",
		deposit.Dropped:   "The chain has it no longer. It counts again if its transaction is mined again.",
	}
	waitNotes = map[deposit.Waits]string{
		deposit.ForMinimum:   "It is credited once all that waits at this address is worth $1.",
		deposit.ForQuote:     "It is credited once there is a price that sources agree on.",
		deposit.ForBalance:   "It is credited once the address has what the transfer says.",
		deposit.ForScreening: "It is credited once its sender is screened.",
	}
	otherNote = "This token is not accepted. It is credited to nobody; an operator returns it."
)

func noteOf(d *settlementv1.Deposit) string {
	state := deposit.State(d.GetState())
	switch note, waits := waitNotes[deposit.Waits(d.GetWaits())]; {
	case state == deposit.Unmatched && d.GetOtherContract() != "":
		return otherNote
	case state == deposit.Final && waits:
		return note
	}
	return notes[state]
}
