package events

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money/moneypb"
	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	"svc.internal/services/verifier/internal/offers"
)

// What anybody on NATS may say neither stops the verifier nor exceeds a bound.
func FuzzMessagesAreReadWithinBounds(f *testing.F) {
	for _, m := range []proto.Message{report("hub-1", 1),
		usage(ids.RequestID{15: 1}, "hub-1", eventsv1.ClaimState_CLAIM_STATE_VALID),
		&eventsv1.ShapeReport{Shapes: []*eventsv1.ShapeCount{{PromptLength: 7, Requests: 30}}}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, o, ok := usageFrom(bus.SubjectUsage("hub-1"), data); ok && len(o.Model) > maxModelID {
			t.Errorf("model of usage: got %d bytes, want at most %d", len(o.Model), maxModelID)
		}
		presence := &eventsv1.Presence{}
		if proto.Unmarshal(data, presence) == nil {
			if r, _, err := reportFromProto(presence); err == nil {
				inBounds(t, r)
			}
		}
		shapes := &eventsv1.ShapeReport{}
		if proto.Unmarshal(data, shapes) == nil {
			if _, counts, err := shapesFromProto(shapes); err == nil && len(counts) > maxShapes {
				t.Errorf("shapes: got %d, want at most %d", len(counts), maxShapes)
			}
		}
	})
}

// What the verifier reads of usage is what protobuf reads.
func FuzzClaimedIsReadAsProtobufReadsIt(f *testing.F) {
	for _, m := range []*eventsv1.UsageEvent{{},
		usage(ids.RequestID{15: 1}, "hub-1", eventsv1.ClaimState_CLAIM_STATE_VALID),
		{RequestId: "request", HubId: "hub", ProviderId: "provider", ModelId: "model", PriceVersionId: "price", Attempt: 7,
			Rates: &moneyv1.Rates{InputPicoUsdPerToken: 1, OutputPicoUsdPerToken: -2, PayoutInputPicoUsdPerToken: 3,
				PayoutOutputPicoUsdPerToken: 4, Unit: moneyv1.Unit_UNIT_IMAGE, PayoutCachedInputPicoUsdPerToken: 6},
			BillablePromptTokens: -1, BillableCompletionTokens: 2, ClaimState: 3, ClaimedPromptTokens: 4,
			ClaimedCompletionTokens: 5, EvidenceSource: 1, Settled: true, Seal: []byte("seal"),
			EndedAt: timestamppb.New(time.Unix(1, 2))},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, data...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &eventsv1.UsageEvent{}
		if proto.Unmarshal(data, want) != nil {
			return
		}
		got, ok := readClaimed(data)
		if !ok {
			t.Fatalf("got %x refused, which protobuf reads", data)
		}
		got.unit = 0
		expected := claimed{
			request: got.request, hub: got.hub, provider: got.provider, model: got.model,
			rates: moneypb.ToRates(want.GetRates()), billablePrompt: want.GetBillablePromptTokens(),
			billableCompletion: want.GetBillableCompletionTokens(), state: want.GetClaimState(),
			claimedPrompt: want.GetClaimedPromptTokens(), claimedCompletion: want.GetClaimedCompletionTokens(),
			source: want.GetEvidenceSource(), settled: want.GetSettled(),
		}
		if !reflect.DeepEqual(got, expected) {
			t.Errorf("got %+v, want %+v", got, expected)
		}
		texts := [...]string{string(got.request), string(got.hub), string(got.provider), string(got.model)}
		wanted := [...]string{want.GetRequestId(), want.GetHubId(), want.GetProviderId(), want.GetModelId()}
		if texts != wanted {
			t.Errorf("texts: got %q, want %q", texts, wanted)
		}
	})
}

func TestClaimedIsReadWithoutAllocation(t *testing.T) {
	data, err := proto.Marshal(usage(ids.RequestID{15: 1}, "hub-1", eventsv1.ClaimState_CLAIM_STATE_VALID))
	if err != nil {
		t.Fatal(err)
	}
	got := testing.AllocsPerRun(100, func() {
		if _, ok := readClaimed(data); !ok {
			t.Error("usage: got refused, want read")
		}
	})
	if got != 0 {
		t.Errorf("got %.0f allocations, want none", got)
	}
}

func inBounds(t *testing.T, r offers.Report) {
	t.Helper()
	for _, s := range r.Sessions {
		for _, m := range s.Models {
			if m.Window < 0 || m.Window > maxWindow {
				t.Errorf("window: got %d, want 0 to %d", m.Window, maxWindow)
			}
		}
	}
}
