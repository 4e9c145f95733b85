package adopt_test

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// forgetful is a database that has calls without their transactions, and nothing else.
type forgetful struct {
	adopt.Store
	calls  int
	looked []sending.Place
}

func (f *forgetful) Senders(context.Context, chain.ID) ([]adopt.Sender, error) {
	return []adopt.Sender{{Key: sending.Operator, Address: hot, Next: uint64(f.calls)}}, nil
}

func (f *forgetful) Waiting(context.Context, chain.ID, int) (list []sending.Status, err error) {
	for i := range f.calls {
		list = append(list, sending.Status{Call: sending.Call{Request: sending.Request{Chain: chain.Base,
			Key: sending.Operator, Purpose: "test"}, Sender: hot, Nonce: uint64(i)}})
	}
	return list, nil
}

func (f *forgetful) EndBefore(_ context.Context, p sending.Place) (uint64, error) {
	f.looked = append(f.looked, p)
	return 0, nil
}

func (*forgetful) Rows(context.Context, []payout.ID) (map[payout.ID]payout.Payout, map[payout.ID]bool, error) {
	return nil, nil, nil
}

func (*forgetful) OpenOf(context.Context, []ids.ProviderID) (map[ids.ProviderID]payout.ID, error) {
	return nil, nil
}

func (*forgetful) Deposits(
	context.Context, chain.ID, []chain.Address,
) (map[chain.Address]uint32, map[chain.Address]adopt.OpenSweep, error) {
	return nil, nil, nil
}

func (*forgetful) Unexplained(context.Context) (bool, error) { return false, nil }
func (*forgetful) Now(context.Context) (time.Time, error)    { return time.Unix(0, 0), nil }

// finalOf is a chain on which a number of nonces is final.
type finalOf struct {
	adopt.Node
	nonces uint64
}

func (f finalOf) Nonce(context.Context, chain.Address) (final, latest uint64, err error) {
	return f.nonces, f.nonces, nil
}

func (finalOf) Sent(_ context.Context, sender chain.Address, nonce, _ uint64) (chain.Found, bool, error) {
	return chain.Found{Hash: chain.Hash{31: byte(nonce)}, From: sender, Nonce: nonce}, true, nil
}

func (finalOf) Receipt(context.Context, chain.Hash) (chain.Receipt, bool, error) {
	return chain.Receipt{Succeeded: true, Final: true}, true, nil
}

type noRecords struct{ adopt.Signer }

func (noRecords) Senders(context.Context, chain.ID) ([]adopt.Sender, error) { return nil, nil }

type noPayouts struct{}

func (noPayouts) Payouts(context.Context, time.Time, int) ([]adopt.Booked, error) { return nil, nil }

func TestCallsBeyondTheBoundOfAPlanAreLeftForTheNext(t *testing.T) {
	t.Parallel()
	for calls, more := range map[int]bool{adopt.MaxCalls: false, adopt.MaxCalls + 1: true} {
		rows := &forgetful{calls: calls}
		adopter := adopt.New(adopt.Deps{Store: rows, Signer: noRecords{}, Books: noPayouts{},
			Chains: []adopt.Chain{{ID: chain.Base, Node: finalOf{nonces: uint64(calls)}}}})
		p, err := adopter.Plan(t.Context(), chain.Base, time.Time{}, adopt.Words{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(p.Calls); got != adopt.MaxCalls {
			t.Errorf("lines of a plan of %d calls: got %d, want %d", calls, got, adopt.MaxCalls)
		}
		if p.More != more {
			t.Errorf("more behind %d calls: got %t, want %t", calls, p.More, more)
		}
		for i, of := range rows.looked {
			if of.Nonce != uint64(i) {
				t.Fatalf("the transaction of call %d: looked for behind the ends before %d, want before its own", i, of.Nonce)
			}
		}
	}
}
