package catalog

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

// kept is an audit entry.
type kept struct {
	actor, action, model string
	detail               map[string]any
}

func (b *bundle) kept(t *testing.T, known int) []kept {
	t.Helper()
	rows, err := b.pool.Query(t.Context(),
		`SELECT actor, action, model_id, detail FROM operator_action ORDER BY id OFFSET $1`, known)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []kept
	for rows.Next() {
		var k kept
		var detail []byte
		if err := rows.Scan(&k.actor, &k.action, &k.model, &detail); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(detail, &k.detail); err != nil {
			t.Fatal(err)
		}
		list = append(list, k)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// audited is the model that the calls of auditedCalls change.
const audited = "test/audited"

// auditedCall is a call that leaves an audit entry.
type auditedCall struct {
	call   func(ctx context.Context) error
	action string
	// detail is what the entry says, among other things.
	detail func() map[string]any
}

// auditedCalls are the calls that leave audit entries, by their methods, in whose order they are made.
func (b *bundle) auditedCalls() map[string]auditedCall {
	version, change := "", ""
	named := wish(audited)
	named.Name = "Another name"
	moment := timestamppb.New(b.clock.Now().Add(time.Hour))
	return map[string]auditedCall{
		"PutModel": {func(ctx context.Context) error {
			resp, err := b.admin.PutModel(ctx, wish(audited))
			version = resp.GetPriceVersionId()
			return err
		}, "put_model", func() map[string]any {
			return map[string]any{"created": true, "active": true, "price_version_id": version}
		}},
		"PutModelFiles": {func(ctx context.Context) error {
			_, err := b.admin.PutModelFiles(ctx, &catalogv1.PutModelFilesRequest{ModelId: audited,
				WeightSourceUrl: "https://weights.example/", Files: []*catalogv1.ModelFile{{
					Filename: "a.gguf", Hash: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", SizeBytes: 1,
					Url: "https://weights.example/a.gguf",
				}}})
			return err
		}, "put_model_files", func() map[string]any {
			return map[string]any{"files": 1.0, "weight_source_url": "https://weights.example/"}
		}},
		"ScheduleModelChange": {func(ctx context.Context) error {
			resp, err := b.admin.ScheduleModelChange(ctx, &catalogv1.ScheduleModelChangeRequest{ModelId: audited,
				EffectiveFrom: moment, Entry: entryOf(named)})
			change = resp.GetChange().GetChangeId()
			return err
		}, "schedule_model_change", func() map[string]any {
			return map[string]any{"change_id": change, "effective_from": "2026-11-21T13:00:00Z"}
		}},
		"CancelModelChange": {func(ctx context.Context) error {
			_, err := b.admin.CancelModelChange(ctx, &catalogv1.CancelModelChangeRequest{ModelId: audited, ChangeId: change})
			return err
		}, "cancel_model_change", func() map[string]any { return map[string]any{"change_id": change} }},
	}
}

// F14: each call of an operator that changes something leaves one audit entry with
// the operator's name, and a repeat leaves none. A method that is added to the
// service fails this test until it has a case.
func TestEachActionOfAnOperatorLeavesAnEntryWithTheOperatorsName(t *testing.T) {
	b := setup(t)
	cases := b.auditedCalls()
	methods := catalogv1.File_svc_catalog_v1_catalog_proto.Services().ByName("CatalogAdminService").Methods()
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
		known := len(b.kept(t, 0))
		for range 2 {
			if err := tc.call(metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice"))); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		list := b.kept(t, known)
		if len(list) != 1 {
			t.Errorf("%s twice: got the entries %+v, want one", name, list)
			continue
		}
		said := strings.Join([]string{list[0].actor, list[0].action, list[0].model}, " ")
		if want := "operator:alice " + tc.action + " " + audited; said != want {
			t.Errorf("%s: got an entry that says %q, want %q", name, said, want)
		}
		for member, want := range tc.detail() {
			if said := list[0].detail[member]; said != want {
				t.Errorf("%s: got %s %v in the entry, want %v", name, member, said, want)
			}
		}
	}
}

func TestAnEntryOfANewPriceNamesItsVersion(t *testing.T) {
	b := setup(t)
	b.put(t, wish(audited))
	dearer := wish(audited)
	dearer.InputPrice = "1.5"
	known := len(b.kept(t, 0))
	resp, err := b.admin.PutModel(metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("<b>")), dearer)
	if err != nil {
		t.Fatal(err)
	}
	list := b.kept(t, known)
	if len(list) != 1 {
		t.Fatalf("got the entries %+v, want one", list)
	}
	switch detail := list[0].detail; {
	case list[0].actor != "operator":
		t.Errorf("of a name that is none: got the actor %q, want operator", list[0].actor)
	case detail["price_version_id"] != resp.GetPriceVersionId():
		t.Errorf("got the version %v, want %s", detail["price_version_id"], resp.GetPriceVersionId())
	case detail["created"] != false:
		t.Errorf("got created %v, want false", detail["created"])
	}
}
