package rpc

import (
	"testing"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/node"
	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/deposit"
)

func TestWithoutChainsNobodyIsFundedAndNoAddressIsTaken(t *testing.T) {
	t.Parallel()
	// There is no function that takes an address, so a call of it would end the test.
	s := &ConsumerDeposits{Deposits: &Deposits{Gateway: node.EdgeGateway}}
	ctx := metadata.NewIncomingContext(t.Context(), serve.UserMetadata(serve.Caller{User: "user", Account: "account"}))
	got, err := s.GetConsumerDepositAddress(ctx, &settlementv1.GetConsumerDepositAddressRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetChains()) > 0 {
		t.Errorf("chains: got %v, want none", got.GetChains())
	}
}

func TestEveryStateAndWaitHasItsWords(t *testing.T) {
	t.Parallel()
	for _, state := range deposit.States() {
		if noteOf(&settlementv1.Deposit{State: string(state)}) == "" {
			t.Errorf("%s: got no words, want some", state)
		}
	}
	for _, waits := range deposit.Reasons() {
		words, own := noteOf(&settlementv1.Deposit{State: string(deposit.Final), Waits: string(waits)}), waitNotes[waits]
		if own == "" {
			t.Errorf("%s: got no words of its own, want some", waits)
		}
		if words != own {
			t.Errorf("%s: got %q, want %q", waits, words, own)
		}
	}
	other := noteOf(&settlementv1.Deposit{State: string(deposit.Unmatched), OtherContract: "0x1"})
	if other != otherNote {
		t.Errorf("another token: got %q, want %q", other, otherNote)
	}
}
