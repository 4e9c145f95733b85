package rpc

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
)

// Deposits implements DepositService.
type Deposits struct {
	settlementv1.UnimplementedDepositServiceServer
	Keeper  *deposit.Keeper
	Chains  chain.Configs
	Gateway string
	// Address returns the address of an account.
	Address func(ctx context.Context, account ids.AccountID) (deposit.Address, error)
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
	out := &settlementv1.ListDepositsResponse{Total: int32(page.Total), Page: int32(page.Number),
		PageSize: int32(page.Length)}
	for _, t := range page.List {
		one := depositToProto(t)
		one.Sender, one.AccountId = "", ""
		out.List = append(out.List, one)
		if down, _, err := deposit.Value(t.Units, nil); err == nil && t.Waits == deposit.ForMinimum && usdc(t) {
			out.OpenNanoUsd += int64(down)
		}
	}
	return out, nil
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

func depositToProto(t deposit.Transfer) *settlementv1.Deposit {
	out := &settlementv1.Deposit{ChainId: int64(t.Chain), TransactionHash: t.Transaction.String(), Place: int64(t.Place),
		Token: t.Token, Amount: t.Amount.String(), State: string(t.State), Waits: string(t.Waits),
		At: timestamppb.New(t.At), Block: int64(t.Block), EntryId: t.Entry, AccountId: t.Account.String()}
	if !t.Sender.IsZero() {
		out.Sender = t.Sender.String()
	}
	if usdc(t) || t.Quote != nil {
		var worth money.NanoUSD
		if down, _, err := deposit.Value(t.Units, t.Quote); err == nil {
			worth = down
		}
		out.ValueNanoUsd = int64(worth)
	}
	return out
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
