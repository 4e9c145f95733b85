package rpc_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/descriptorpb"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// acts are those of alice, the newest first.
func (d *desk) acts() []acts.Act {
	d.Helper()
	list, err := d.tables.Acts(d.Context(), acts.Filter{Actor: "operator:alice@0189", Limit: acts.MaxLimit})
	d.must(err)
	return list
}

// calling is what an operator calls, twice, and what is listed of it.
type calling struct {
	// call returns what was acted on.
	call   func(ctx context.Context) (string, error)
	action string
	// again is how many acts the second call is.
	again int
}

// callings has a case for each method of operators that changes something.
func (d *desk) callings(key **hubv1.IssueProviderKeyResponse) map[string]calling {
	m, bound, pending := d.signUp(), d.signUp(), d.signUp()
	_, err := d.self.UpdateOwn(d.Context(), &hubv1.UpdateOwnRequest{KeyDigest: bound.digest,
		BeneficiaryAddress: "0x00000000000000000000000000000000000000AA"})
	d.must(err)
	return map[string]calling{
		"CreateProvider": {func(ctx context.Context) (string, error) {
			got, err := d.admin.CreateProvider(ctx, &hubv1.CreateProviderRequest{Name: "Made", Region: "eu",
				IdempotencyKey: "once"})
			return got.GetProvider().GetProviderId(), err
		}, "create_provider", 0},
		"SetProviderStatus": {func(ctx context.Context) (string, error) {
			_, err := d.admin.SetProviderStatus(ctx, &hubv1.SetProviderStatusRequest{ProviderId: m.id,
				Status: hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED, Reason: "seen"})
			return m.id, err
		}, "suspend", 0},
		"ConfirmQualification": {func(ctx context.Context) (string, error) {
			_, err := d.admin.ConfirmQualification(ctx, &hubv1.ConfirmQualificationRequest{ProviderId: m.id, GpuWaived: yes(),
				Reason: "seen"})
			return m.id, err
		}, "gpu_waived", 0},
		"UnbindProvider": {func(ctx context.Context) (string, error) {
			_, err := d.admin.UnbindProvider(ctx, &hubv1.UnbindProviderRequest{ProviderId: bound.id, Proposals: true,
				Reason: "asked"})
			return bound.id, err
		}, "proposal_dropped", 0},
		"SetReference": {func(ctx context.Context) (string, error) {
			_, err := d.admin.SetReference(ctx, &hubv1.SetReferenceRequest{ProviderId: pending.id, Reference: true,
				Reason: "ours"})
			return pending.id, err
		}, "reference_set", 0},
		"WarmUp": {func(ctx context.Context) (string, error) {
			_, err := d.admin.WarmUp(ctx, &hubv1.WarmUpRequest{ModelId: "a/b"})
			return "a/b", err
		}, "warm_up", 1},
		"IssueProviderKey": {func(ctx context.Context) (_ string, err error) {
			*key, err = d.admin.IssueProviderKey(ctx, &hubv1.IssueProviderKeyRequest{ProviderId: m.id, Name: "second"})
			return m.id, err
		}, "issue_provider_key", 1},
		"RevokeProviderKey": {func(ctx context.Context) (string, error) {
			_, err := d.admin.RevokeProviderKey(ctx, &hubv1.RevokeProviderKeyRequest{KeyId: (*key).GetKeyId()})
			return m.id, err
		}, "revoke_provider_key", 0},
	}
}

// Each call of an operator that changes something is one act under the operator's name, and a
// repeat that changes nothing is none. A method that is added to the service fails this test until
// it has a case.
func TestEachCallOfAnOperatorIsAnActUnderTheOperatorsName(t *testing.T) {
	d := setup(t)
	var key *hubv1.IssueProviderKeyResponse
	cases := d.callings(&key)
	alice := metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice@0189"))
	methods := hubv1.File_svc_hub_v1_provider_proto.Services().ByName("ProviderAdminService").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		options, _ := methods.Get(i).Options().(*descriptorpb.MethodOptions)
		if options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
			continue
		}
		tc, ok := cases[name]
		if !ok {
			t.Errorf("got no case for %s, want one for each method that changes something", name)
			continue
		}
		known := len(d.acts())
		subject, err := tc.call(alice)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list := d.acts()
		if len(list) != known+1 {
			t.Errorf("%s: got the acts %+v, want one more than %d", name, list, known)
			continue
		}
		if got, want := list[0].Action+" "+list[0].Subject, tc.action+" "+subject; got != want {
			t.Errorf("%s: got the act %s, want %s", name, got, want)
		}
		if _, err := tc.call(alice); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
		if got := len(d.acts()) - known - 1; got != tc.again {
			t.Errorf("%s again: got %d acts, want %d", name, got, tc.again)
		}
	}
	if slices.ContainsFunc(d.acts(), func(a acts.Act) bool { return strings.Contains(a.Detail, key.GetApiKey()) }) {
		t.Error("an act has the text of a key")
	}
}

func TestWhatProvidersDoIsNoAct(t *testing.T) {
	d := setup(t)
	d.activate(d.signUp())
	list, err := d.tables.Acts(t.Context(), acts.Filter{Limit: acts.MaxLimit})
	d.must(err)
	for _, a := range list {
		if a.Actor != "operator" {
			t.Errorf("got %+v, want acts of operators alone", a)
		}
	}
	if len(list) != 2 {
		t.Errorf("a sign-up, two confirmations and a benchmark: got %d acts, want the 2 confirmations: %+v", len(list), list)
	}
}
