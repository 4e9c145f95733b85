package peers

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sweep"
)

// sweepSigner answers each question for an authorization alike.
type sweepSigner struct {
	signerv1.SignerServiceClient
	answer *signerv1.SignSweepResponse
	asked  **signerv1.SignSweepRequest
}

func (s sweepSigner) SignSweep(
	_ context.Context, req *signerv1.SignSweepRequest, _ ...grpc.CallOption,
) (*signerv1.SignSweepResponse, error) {
	*s.asked = req
	return s.answer, nil
}

func TestOnlyAWholeSignatureOfASweepIsTaken(t *testing.T) {
	t.Parallel()
	whole := func(change func(*signerv1.SignSweepResponse)) *signerv1.SignSweepResponse {
		r := &signerv1.SignSweepResponse{V: 28, R: make([]byte, 32), S: make([]byte, 32), From: make([]byte, 20)}
		r.R[0], r.S[31], r.From[19] = 1, 2, 3
		change(r)
		return r
	}
	a := sweep.Authorization{Chain: chain.Base, Token: chain.Address{7}, Index: 5, Value: chain.NewAmount(9),
		ValidBefore: time.Unix(100, 0), Nonce: [32]byte{4}}
	for name, c := range map[string]struct {
		change func(*signerv1.SignSweepResponse)
		ok     bool
	}{
		"whole":        {func(*signerv1.SignSweepResponse) {}, true},
		"another v":    {func(r *signerv1.SignSweepResponse) { r.V = 1 }, false},
		"v beyond 255": {func(r *signerv1.SignSweepResponse) { r.V = 256 + 27 }, false},
		"a short r":    {func(r *signerv1.SignSweepResponse) { r.R = r.R[1:] }, false},
		"a long s":     {func(r *signerv1.SignSweepResponse) { r.S = append(r.S, 0) }, false},
		"no address":   {func(r *signerv1.SignSweepResponse) { r.From = nil }, false},
	} {
		var asked *signerv1.SignSweepRequest
		got, err := ChainSigner{Client: sweepSigner{answer: whole(c.change), asked: &asked}}.Authorize(t.Context(), a)
		if (err == nil) != c.ok {
			t.Errorf("%s: got the error %v, want one: %t", name, err, !c.ok)
		}
		want := sweep.Signature{From: chain.Address{19: 3}, V: 28, R: [32]byte{1}, S: [32]byte{31: 2}}
		if c.ok && got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		request := &signerv1.SignSweepRequest{ChainId: 8453, Token: a.Token[:], DepositIndex: 5, Value: "9",
			ValidBefore: 100, Nonce: a.Nonce[:]}
		if !proto.Equal(asked, request) {
			t.Errorf("%s: asked %v, want %v", name, asked, request)
		}
	}
}
