package peers

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/slash"
)

// lastPosted keeps the last fact that was posted.
type lastPosted struct {
	billingv1.PostingServiceClient
	req *billingv1.PostRequest
}

func (l *lastPosted) Post(
	_ context.Context, req *billingv1.PostRequest, _ ...grpc.CallOption,
) (*billingv1.PostResponse, error) {
	l.req = req
	return &billingv1.PostResponse{EntryId: "01a21dc1-8711-7ba0-81c2-369088a38e44"}, nil
}

func TestTheBooksHaveADepositorInLowerCase(t *testing.T) {
	t.Parallel()
	const usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	address, err := chain.ParseAddress(usdc)
	if err != nil {
		t.Fatal(err)
	}
	var posted lastPosted
	b := CollateralBooks{Posting: &posted, Terms: position.Terms{Chains: []position.Rules{{Chain: 8453}}}}
	part := slash.Part{Chain: 8453, Depositor: address, Units: 1}
	if _, err := b.ChainSlashed(t.Context(), part, chain.Quote{}); err != nil {
		t.Fatal(err)
	}
	const want = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
	if got := posted.req.GetChainSlashed().GetDepositor(); got != want {
		t.Errorf("the depositor: got %q, want %q", got, want)
	}
}

func TestAFailedAttemptIsReadAsTheLedgerNamesIt(t *testing.T) {
	t.Parallel()
	const part = "01890000-0000-7000-8000-000000000001"
	for reference, want := range map[string]position.CardFailure{
		part: {Part: part, Attempt: 1}, part + "/2": {Part: part, Attempt: 2}, part + "/3": {Part: part, Attempt: 3},
	} {
		got, err := failureOf(reference)
		if err != nil {
			t.Fatalf("%q: %v", reference, err)
		}
		if got != want {
			t.Errorf("%q: got %+v, want %+v", reference, got, want)
		}
	}
	for _, reference := range []string{"", "/", part + "/", part + "/0", part + "/1", part + "/-1", part + "/x", "x",
		"00000000-0000-0000-0000-000000000000", part + "/2/3"} {
		if got, err := failureOf(reference); err == nil {
			t.Errorf("%q: got %+v, want an error", reference, got)
		}
	}
}
