package rpc

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// Deposits implements DepositService.
type Deposits struct {
	settlementv1.UnimplementedDepositServiceServer
	Keeper  *deposit.Keeper
	Chains  chain.Configs
	Gateway string
	// Address returns the address of an account.
	Address func(ctx context.Context, account ids.AccountID) (deposit.Address, error)
	// States says how far chains are.
	States ChainStates
	// Quotes has the prices of coins.
	Quotes sending.Quotes
}

// GetDepositAddress returns the address of an account.
func (s *Deposits) GetDepositAddress(
	ctx context.Context, req *settlementv1.GetDepositAddressRequest,
) (*settlementv1.GetDepositAddressResponse, error) {
	if err := only(ctx, s.Gateway); err != nil {
		return nil, err
	}
	account, err := accountFromProto(req.GetAccountId())
	if err != nil {
		return nil, err
	}
	if len(s.Chains) == 0 {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "there is no chain")
	}
	a, err := s.Address(ctx, account)
	if err != nil {
		return nil, err
	}
	out := &settlementv1.GetDepositAddressResponse{Address: a.Address.String(), MinimumNanoUsd: int64(deposit.Minimum)}
	for _, c := range s.Chains {
		if asset, ok := c.Asset(c.ID.PaysOut()); ok {
			out.Chains = append(out.Chains, &settlementv1.DepositChain{ChainId: int64(c.ID), Name: c.Name,
				Confirmations: int64(c.Depth), Assets: []*settlementv1.DepositAsset{assetToProto(asset)}})
		}
	}
	return out, nil
}

func assetToProto(a chain.Asset) *settlementv1.DepositAsset {
	out := &settlementv1.DepositAsset{Symbol: a.Symbol, Decimals: int32(a.Decimals)}
	if a.Kind == chain.Coin {
		out.BonusPercent = deposit.BonusPercent
	} else {
		out.Contract = a.Contract.String()
	}
	return out
}

// ListDeposits is one page of what arrived for an account.
func (s *Deposits) ListDeposits(
	ctx context.Context, req *settlementv1.ListDepositsRequest,
) (*settlementv1.ListDepositsResponse, error) {
	if err := only(ctx, s.Gateway); err != nil {
		return nil, err
	}
	account, err := accountFromProto(req.GetAccountId())
	if err != nil {
		return nil, err
	}
	page, err := s.Keeper.OfAccount(ctx, account, int(req.GetPage()), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	heights, err := heightsOf(ctx, s.States)
	if err != nil {
		return nil, err
	}
	out := &settlementv1.ListDepositsResponse{Total: int32(page.Total), Page: int32(page.Number),
		PageSize: int32(page.Length), MinimumNanoUsd: int64(deposit.Minimum)}
	for _, t := range page.List {
		one := depositToProto(s.Chains, heights, t)
		one.Sender, one.AccountId = "", ""
		out.List = append(out.List, one)
	}
	return out, s.open(ctx, account, out)
}

// open adds what waits to be credited.
func (s *Deposits) open(ctx context.Context, account ids.AccountID, out *settlementv1.ListDepositsResponse) error {
	sums, err := s.Keeper.OpenSums(ctx, account)
	if err != nil {
		return err
	}
	for _, o := range sums {
		one := &settlementv1.OpenSum{ChainId: int64(o.Chain), Token: o.Token, Transfers: int32(o.Transfers)}
		asset := assetOf(s.Chains, o.Chain, o.Token)
		one.Symbol, one.Tokens = asset.Symbol, o.Amount.Decimal(asset.Decimals)
		var price *sending.Quote
		if asset.Kind == chain.Coin {
			q, err := s.Quotes.Quote(ctx, o.Chain)
			if err != nil {
				out.Open = append(out.Open, one)
				continue // it has no value as long as there is no price
			}
			price = &q
			one.RateNanoUsd, one.RateSource, one.RateAt = int64(q.Rate), q.Source, timestamppb.New(q.At)
		}
		if down, _, err := deposit.Value(o.Units, price); err == nil {
			one.ValueNanoUsd = int64(down)
		}
		out.OpenNanoUsd += one.GetValueNanoUsd()
		out.Open = append(out.Open, one)
	}
	return nil
}

// assetOf returns the asset that has a name in the books. One that is configured no more has no symbol.
func assetOf(chains chain.Configs, id chain.ID, token string) chain.Asset {
	kind, decimals := chain.Coin, chain.CoinDecimals
	if token == id.Token(chain.USDC) {
		kind, decimals = chain.USDC, chain.USDCDecimals
	}
	cfg, _ := chains.Of(id)
	if asset, ok := cfg.Asset(kind); ok && cfg.ID == id {
		return asset
	}
	return chain.Asset{Chain: id, Kind: kind, Decimals: decimals}
}

// usdc reports whether a transfer is of dollars.
func usdc(t deposit.Transfer) bool { return t.Token == t.Chain.Token(chain.USDC) }

func accountFromProto(text string) (ids.AccountID, error) {
	id, err := ids.ParseAccount(text)
	if err != nil {
		return ids.AccountID{}, fault.New(fault.Invalid, fault.InvalidValue, "account_id is no account's id").On("account_id")
	}
	return id, nil
}

func depositToProto(
	chains chain.Configs, heights map[chain.ID]store.ChainState, t deposit.Transfer,
) *settlementv1.Deposit {
	asset := assetOf(chains, t.Chain, t.Token)
	out := &settlementv1.Deposit{ChainId: int64(t.Chain), TransactionHash: t.Transaction.String(), Place: int64(t.Place),
		Token: t.Token, Amount: t.Amount.String(), State: string(t.State), Waits: string(t.Waits),
		At: timestamppb.New(t.At), Block: int64(t.Block), EntryId: t.Entry, AccountId: t.Account.String(),
		Symbol: asset.Symbol, Decimals: int32(asset.Decimals)}
	if t.IsOther() {
		out.Symbol, out.Decimals, out.OtherContract = t.Other.Symbol, int32(t.Other.Decimals), t.Other.Contract.String()
	}
	out.Tokens = t.Amount.Decimal(int(out.GetDecimals()))
	if !t.Sender.IsZero() {
		out.Sender = t.Sender.String()
	}
	if !t.ReturnTx.IsZero() {
		out.ReturnTransactionHash = t.ReturnTx.String()
	}
	value(out, t)
	confirm(out, chains, heights[t.Chain], t)
	return out
}

// value sets what a transfer is worth, and at which rate.
func value(out *settlementv1.Deposit, t deposit.Transfer) {
	if t.Quote != nil {
		out.RateNanoUsd, out.RateSource = int64(t.Quote.Rate), t.Quote.Source
		out.RateAt = timestamppb.New(t.Quote.At)
	} else if !usdc(t) {
		return
	}
	down, even, err := deposit.Value(t.Units, t.Quote)
	switch {
	case err != nil: // nobody can be credited so much
	case t.End == deposit.Matched:
		out.ValueNanoUsd = int64(even)
	default:
		out.ValueNanoUsd = int64(down)
		if t.State == deposit.Credited && !usdc(t) {
			out.BonusNanoUsd = int64(deposit.Bonus(down))
		}
	}
}

// confirm sets how many blocks stand on a transfer, and how many must.
func confirm(out *settlementv1.Deposit, chains chain.Configs, at store.ChainState, t deposit.Transfer) {
	cfg, _ := chains.Of(t.Chain)
	if out.ConfirmationsNeeded = int64(cfg.Depth); cfg.Depth == 0 && at.Head > at.Final {
		out.ConfirmationsNeeded = int64(at.Head - at.Final)
	}
	if t.State != deposit.Dropped && at.Head > t.Block {
		out.Confirmations = int64(at.Head - t.Block)
	}
}

// chainFromProto reads the number of a configured chain.
func chainFromProto(chains chain.Configs, number int64) (chain.ID, error) {
	id := chain.ID(number)
	if !slices.ContainsFunc(chains, func(c chain.Config) bool { return c.ID == id }) {
		return 0, fault.New(fault.Invalid, fault.InvalidValue, "chain_id is that of no configured chain").On("chain_id")
	}
	return id, nil
}

// hashFromProto reads a hash.
func hashFromProto(field, text string) (chain.Hash, error) {
	h, err := chain.ParseHash(text)
	if err != nil {
		return chain.Hash{}, fault.New(fault.Invalid, fault.InvalidValue, "%s must be 0x and 64 digits", field).On(field)
	}
	return h, nil
}
