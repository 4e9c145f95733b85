package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/receipt"
	"svc.internal/services/billing-ledger/internal/usage"
)

// shownKeys bounds the keys that an operator sees of an account.
const shownKeys = 100

// Overview answers operators who look for accounts.
type Overview struct {
	billingv1.UnimplementedAccountOverviewAdminServiceServer
	Overview *account.Overview
	Accounts *Accounts
	Keys     key.OwnStore
	// Standings says why accounts are frozen, and what they owe.
	Standings account.Standings
	// Requests finds requests of whichever account.
	Requests receipt.OperatorStore
}

// ListAccounts is one page of the accounts that match.
func (s *Overview) ListAccounts(
	ctx context.Context, req *billingv1.ListAccountsRequest,
) (*billingv1.ListAccountsResponse, error) {
	f := account.Filter{EmailPrefix: req.GetEmailPrefix(), KeyPrefix: req.GetKeyPrefix(),
		Wallet: req.GetWallet(), State: account.State(req.GetState())}
	page, next, err := s.Overview.Find(ctx, f, req.GetCursor(), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListAccountsResponse{NextCursor: next}
	for _, a := range page {
		listed := &billingv1.ListedAccount{
			AccountId: a.ID.String(), Name: a.Name, State: string(a.State), Email: a.Email,
			BalanceUsd: a.Balance.Float(), BalanceUsdStr: a.Balance.String(),
			HeldUsd: a.Held.Float(), HeldUsdStr: a.Held.String(), CreatedAt: timestamp(a.CreatedAt),
		}
		for _, is := range a.WalletIs {
			listed.WalletIs = append(listed.WalletIs, string(is))
		}
		resp.List = append(resp.List, listed)
	}
	return resp, nil
}

// GetAccountDetails reads what an operator sees of one account.
func (s *Overview) GetAccountDetails(
	ctx context.Context, req *billingv1.GetAccountDetailsRequest,
) (*billingv1.GetAccountDetailsResponse, error) {
	shown, err := s.Accounts.GetAccount(ctx, &billingv1.GetAccountRequest{AccountId: req.GetAccountId()})
	if err != nil {
		return nil, err
	}
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	d, err := s.Overview.Details(ctx, id)
	if err != nil {
		return nil, err
	}
	keys, err := s.Keys.KeysOf(ctx, id, ids.KeyID{}, true, shownKeys)
	if err != nil {
		return nil, err
	}
	st, err := s.Standings.Standing(ctx, id)
	if err != nil {
		return nil, err
	}
	resp := &billingv1.GetAccountDetailsResponse{Account: shown.GetAccount(), Email: d.Email,
		Limits: spendLimitsToProto(d.Limits), Freezes: freezesToProto(st.Freezes), Debts: debtsToProto(st.Debts)}
	if !d.Provider.IsZero() {
		resp.ProviderId = d.Provider.String()
	}
	for _, k := range keys {
		resp.Keys = append(resp.Keys, ownedToProto(k))
	}
	for _, e := range d.Entries {
		resp.Entries = append(resp.Entries, &billingv1.AccountEntry{EntryId: e.ID.String(), Kind: e.Kind,
			AmountUsd: e.Amount.Float(), AmountUsdStr: e.Amount.String(), Memo: e.Memo, At: timestamp(e.At)})
	}
	for _, a := range d.Actions {
		resp.Actions = append(resp.Actions, &billingv1.OperatorAction{Actor: a.Actor, Action: a.Action, Detail: a.Detail,
			At: timestamp(a.At)})
	}
	return resp, nil
}

// RefundRequest gives an account back what a request was charged. A malformed id is not found
// either.
func (s *Overview) RefundRequest(
	ctx context.Context, req *billingv1.RefundRequestRequest,
) (*billingv1.RefundRequestResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NoRequest()
	}
	request, err := ids.ParseRequest(req.GetRequestId())
	if err != nil {
		return nil, account.NoRequest()
	}
	entry, amount, err := s.Overview.Refund(byOperator(ctx), account.Refund{Account: id, Request: request,
		Cause: usage.RefundCause(req.GetCause()), Note: req.GetNote()})
	if err != nil {
		return nil, err
	}
	return &billingv1.RefundRequestResponse{EntryId: entry.String(), AmountUsd: amount.Float(),
		AmountUsdStr: amount.String()}, nil
}
