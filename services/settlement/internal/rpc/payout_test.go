package rpc_test

import (
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/payoutsim/memory"
	"svc.internal/services/settlement/internal/rpc"
)

func TestOnlyOperatorsHearWhoApprovedAPayout(t *testing.T) {
	t.Parallel()
	rows := memory.Payouts{DB: memory.New(time.Now, chain.Base)}
	id := payout.ID{6: 0x70, 8: 0x80, 15: 1}
	provider := ids.ProviderID{6: 0x70, 8: 0x80, 15: 2}
	if _, _, err := rows.Insert(t.Context(), payout.Draft{ID: id, ProviderID: provider, Gross: 10_001 * money.USD,
		Fee: payout.Fee, Address: chain.Address{7}}, payout.Operation{ProviderID: provider, Key: "k"},
		func(chain.ID) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.Change(t.Context(), id, func(p *payout.Payout) (payout.Step, error) {
		p.Revision, p.Reserved, p.Consents = 2, ids.EntryID{1}, []payout.Approval{{Operator: "operator:ann@1"}}
		return payout.Step{Entry: payout.Entry{Revision: 2, From: p.State, To: p.State, Cause: payout.Consent},
			Consents: true}, nil
	}); err != nil {
		t.Fatal(err)
	}
	keeper := payout.NewKeeper(payout.Config{Alone: payout.Alone, AloneDaily: payout.Alone}, payout.Deps{Store: rows})

	own, err := (&rpc.Payouts{Keeper: keeper}).ListPayouts(t.Context(),
		&settlementv1.ListPayoutsRequest{ProviderId: provider.String()})
	if err != nil {
		t.Fatal(err)
	}
	p := own.GetList()[0]
	got := fmt.Sprint(len(p.GetApprovals()), p.GetApprovalsGiven(), p.GetApprovalsNeeded())
	if want := "0 1 2"; got != want {
		t.Errorf("the provider: got names, given and needed %s, want %s", got, want)
	}
	if got, want := own.GetTerms().GetNextAt().AsTime(), p.GetRequestedAt().AsTime().Add(payout.Every); !got.Equal(want) {
		t.Errorf("the next payout: got %v, want %v", got, want)
	}

	all, err := (&rpc.PayoutAdmin{Keeper: keeper}).ListAllPayouts(t.Context(), &settlementv1.ListAllPayoutsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	approval := all.GetList()[0].GetApprovals()[0]
	if got, want := approval.GetOperator(), "ann@1"; got != want {
		t.Errorf("an operator: got the name %s, want %s", got, want)
	}
	if approval.GetAt() == nil {
		t.Error("an operator: got no moment of the approval")
	}
}
