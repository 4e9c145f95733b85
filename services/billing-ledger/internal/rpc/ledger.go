package rpc

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/entries"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Ledger answers operators who read the ledger.
type Ledger struct {
	billingv1.UnimplementedLedgerAdminServiceServer
	Trials   *entries.Trials
	Entries  entries.Store
	Compared *entries.Compared
}

// ListLedgerAccounts is the trial balance.
func (s *Ledger) ListLedgerAccounts(
	ctx context.Context, _ *billingv1.ListLedgerAccountsRequest,
) (*billingv1.ListLedgerAccountsResponse, error) {
	t, err := s.Trials.Trial(ctx)
	if err != nil {
		return nil, err
	}
	return &billingv1.ListLedgerAccountsResponse{List: balancesToProto(t.Balances), Totals: balancesToProto(t.Totals),
		Balanced: t.Balanced(), ReadAt: timestamp(t.At)}, nil
}

func balancesToProto(list []entries.Balance) (out []*billingv1.LedgerBalance) {
	for _, b := range list {
		out = append(out, &billingv1.LedgerBalance{AccountKind: string(b.Account), Book: b.Book, Asset: string(b.Asset),
			Amount: entries.Amount(b.Asset, b.Amount)})
	}
	return out
}

// ListLedgerEntries is one page of entries.
func (s *Ledger) ListLedgerEntries(
	ctx context.Context, req *billingv1.ListLedgerEntriesRequest,
) (*billingv1.ListLedgerEntriesResponse, error) {
	f, err := entriesFromProto(req)
	if err != nil {
		return nil, err
	}
	page, next, err := entries.Page(ctx, s.Entries, f, req.GetCursor(), int(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	resp := &billingv1.ListLedgerEntriesResponse{NextCursor: next}
	for _, e := range page {
		resp.List = append(resp.List, entryToProto(e))
	}
	return resp, nil
}

func entriesFromProto(req *billingv1.ListLedgerEntriesRequest) (f entries.Filter, err error) {
	f = entries.Filter{BusinessID: req.GetBusinessId(), Account: ledger.AccountKind(req.GetAccountKind())}
	if f.Since, err = entries.ParseTime("since", req.GetSince()); err != nil {
		return entries.Filter{}, err
	}
	if f.Until, err = entries.ParseTime("until", req.GetUntil()); err != nil {
		return entries.Filter{}, err
	}
	if text := req.GetRequestId(); text != "" {
		if f.Request, err = ids.ParseRequest(text); err != nil {
			return entries.Filter{}, noID("request_id")
		}
	}
	if text := req.GetOwnerId(); text != "" {
		// An owner is an account, a provider or a vendor, whose ids have one form.
		owner, err := ids.ParseAccount(text)
		if err != nil {
			return entries.Filter{}, noID("owner_id")
		}
		f.Owner = owner
	}
	return f, nil
}

func noID(field string) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s must be an id", field).On(field)
}

func entryToProto(e entries.Entry) *billingv1.LedgerEntry {
	m := &billingv1.LedgerEntry{EntryId: e.ID.String(), Kind: string(e.Kind), BusinessId: e.BusinessID, Memo: e.Memo,
		At: timestamp(e.At)}
	if !e.Reverses.IsZero() {
		m.Reverses = e.Reverses.String()
	}
	for _, p := range e.Legs {
		leg := &billingv1.LedgerLeg{AccountKind: string(p.Account.Kind), Book: p.Account.Book, Asset: string(p.Asset),
			Amount: entries.Amount(p.Asset, p.Amount)}
		if owner := ids.AccountID(p.Account.Owner); !owner.IsZero() {
			leg.OwnerId = owner.String()
		}
		m.Legs = append(m.Legs, leg)
	}
	return m
}

// ListLedgerInvariants is what comparisons found.
func (s *Ledger) ListLedgerInvariants(
	context.Context, *billingv1.ListLedgerInvariantsRequest,
) (*billingv1.ListLedgerInvariantsResponse, error) {
	list, pass, complete := s.Compared.Found()
	resp := &billingv1.ListLedgerInvariantsResponse{Pass: passToProto(pass), LastComplete: passToProto(complete)}
	for _, i := range list {
		resp.List = append(resp.List, &billingv1.LedgerInvariant{Name: i.Name, Holds: i.Drift == 0,
			Drift: int32(i.Drift), CheckedAt: timestamp(i.CheckedAt), Scope: i.Scope})
	}
	return resp, nil
}

// passToProto writes a pass of comparisons; nil for none.
func passToProto(p entries.Pass) *billingv1.LedgerPass {
	if p.Number == 0 {
		return nil
	}
	return &billingv1.LedgerPass{Number: int32(p.Number), BeganAt: timestamp(p.Began),
		ComparedAt: timestamp(p.Compared), Comparisons: int32(p.Comparisons), Complete: p.Complete, Drift: int32(p.Drift)}
}
