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
		if n := b.count(t, `SELECT count(*) FROM operator_action WHERE actor = 'operator:alice'
			AND action = 'reverse_penalty' AND detail ->> 'reason' = 'common cause'
			AND subject = '`+p.GetPenaltyId()+`'`); n != 1 {
			t.Errorf("%s twice: got %d acts of operator:alice, want 1", name, n)
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

func TestEachDecisionAboutBatchesLeavesAnEntryWithTheOperatorsName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, sql := range []string{
		`INSERT INTO batch_day (day, seal, lines) VALUES ('2026-11-20', decode(repeat('00', 32), 'hex'), 0)`,
		`INSERT INTO batch_block (day, provider_id, cause, differences)
			VALUES ('2026-11-20', '0192f0c0-0000-7000-8000-000000000001', 'sums', 1)`,
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		call  func(context.Context) error
		count string
		act   string
	}{
		"AllowDay": {func(ctx context.Context) error {
			_, err := b.earningAdmin.AllowDay(ctx, &settlementv1.AllowDayRequest{Day: "2026-11-20", Reason: "looked at"})
			return err
		}, `SELECT count(*) FROM batch_allowance WHERE actor = 'operator:alice' AND reason = 'looked at'`,
			`action = 'allow_day' AND subject = '2026-11-20'`},
		"UnblockProvider": {func(ctx context.Context) error {
			_, err := b.earningAdmin.UnblockProvider(ctx, &settlementv1.UnblockProviderRequest{
				ProviderId: "0192f0c0-0000-7000-8000-000000000001", Reason: "looked at"})
			return err
		}, `SELECT count(*) FROM batch_unblock WHERE actor = 'operator:alice' AND reason = 'looked at'`,
			`action = 'unblock_provider' AND subject = '0192f0c0-0000-7000-8000-000000000001'`},
	}
	methods := settlementv1.File_svc_settlement_v1_earning_proto.Services().ByName("EarningAdminService").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		options, _ := methods.Get(i).Options().(*descriptorpb.MethodOptions)
		if options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
			continue
		}
		c, ok := cases[name]
		if !ok {
			t.Errorf("got no case for %s, want one for each method that changes something", name)
			continue
		}
		for range 2 {
			if err := c.call(metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice"))); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := b.count(t, c.count); n != 1 {
			t.Errorf("%s twice: got %d entries of operator:alice, want 1", name, n)
		}
		if n := b.count(t, `SELECT count(*) FROM operator_action WHERE actor = 'operator:alice' AND `+c.act); n != 1 {
			t.Errorf("%s twice: got %d acts of operator:alice, want 1", name, n)
		}
	}
}
