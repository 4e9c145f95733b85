package settlement

import (
	"context"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/descriptorpb"

	"svc.internal/pkg/serve"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// F14: each call of an operator that changes something leaves one entry in the history
// with the operator's name, and a repeat leaves none. A method that is added to the
// service fails this test until it has a case.
func TestEachActionOfAnOperatorLeavesAnEntryWithTheOperatorsName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.openPenalty(t)
	cases := map[string]func(context.Context) error{
		"ResolvePenalty": func(ctx context.Context) error {
			_, err := b.penaltyAdmin.ResolvePenalty(ctx, &settlementv1.ResolvePenaltyRequest{
				PenaltyId: p.GetPenaltyId(), Reason: "common cause"})
			return err
		},
	}
	methods := settlementv1.File_svc_settlement_v1_penalty_proto.Services().ByName("PenaltyAdminService").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		options, _ := methods.Get(i).Options().(*descriptorpb.MethodOptions)
		if options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
			continue
		}
		call, ok := cases[name]
		if !ok {
			t.Errorf("got no case for %s, want one for each method that changes something", name)
			continue
		}
		for range 2 {
			if err := call(metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice"))); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := b.count(t, `SELECT count(*) FROM penalty_change WHERE actor = 'operator:alice' AND cause = 'reverse'
			AND reason = 'common cause'`); n != 1 {
			t.Errorf("%s twice: got %d entries of operator:alice, want 1", name, n)
		}
	}
	nameless := b.openPenalty(t)
	if _, err := b.penaltyAdmin.ResolvePenalty(metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("<b>")),
		&settlementv1.ResolvePenaltyRequest{PenaltyId: nameless.GetPenaltyId(), Reason: "void"}); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, `SELECT count(*) FROM penalty_change WHERE actor = 'operator'`); n != 1 {
		t.Errorf("an operator without a name: got %d entries, want 1", n)
	}
}
