package events

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	"svc.internal/services/billing-ledger/internal/usage"
)

func validEvent() *eventsv1.UsageEvent {
	return &eventsv1.UsageEvent{
		RequestId: "018f0000-0000-7000-8000-000000000001", Attempt: 1, HubId: "hub-1",
		ProviderId: "018f0000-0000-7000-8000-000000000002", ModelId: "acme/large",
		PriceVersionId: "018f0000-0000-7000-8000-000000000003",
		Rates:          &moneyv1.Rates{OutputPicoUsdPerToken: 2, PayoutOutputPicoUsdPerToken: 1},
		Ending:         eventsv1.Ending_ENDING_COMPLETED, ClaimState: eventsv1.ClaimState_CLAIM_STATE_VALID,
		BillableCompletionTokens: 5, EndedAt: timestamppb.New(time.Unix(1, 1999)),
	}
}

func encode(t testing.TB, m *eventsv1.UsageEvent) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEachFaultOfAnEventIsItsReject(t *testing.T) {
	if _, reject := decodeUsage(encode(t, validEvent())); reject != nil {
		t.Fatalf("a valid event: got %+v, want nil", reject)
	}
	for name, spoil := range map[string]func(*eventsv1.UsageEvent){
		"request id":    func(m *eventsv1.UsageEvent) { m.RequestId = "x" },
		"provider id":   func(m *eventsv1.UsageEvent) { m.ProviderId = "" },
		"price version": func(m *eventsv1.UsageEvent) { m.PriceVersionId = "" },
		"hub":           func(m *eventsv1.UsageEvent) { m.HubId = "hub.*" },
		"attempt":       func(m *eventsv1.UsageEvent) { m.Attempt = 0 },
		"ending":        func(m *eventsv1.UsageEvent) { m.Ending = 99 },
		"claim state":   func(m *eventsv1.UsageEvent) { m.ClaimState = eventsv1.ClaimState_CLAIM_STATE_UNSPECIFIED },
		"prompt":        func(m *eventsv1.UsageEvent) { m.BillablePromptTokens = -1 },
		"completion":    func(m *eventsv1.UsageEvent) { m.BillableCompletionTokens = -1 },
		"payout":        func(m *eventsv1.UsageEvent) { m.Rates.PayoutOutputPicoUsdPerToken = 3 },
		"model":         func(m *eventsv1.UsageEvent) { m.ModelId = "" },
		"unit":          func(m *eventsv1.UsageEvent) { m.Rates.Unit = 9 },
		"images with a prompt": func(m *eventsv1.UsageEvent) {
			m.Rates.Unit, m.BillablePromptTokens = moneyv1.Unit_UNIT_IMAGE, 1
		},
		"audio with a completion": func(m *eventsv1.UsageEvent) {
			m.Rates = &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_AUDIO_MINUTE, InputPicoUsdPerToken: 2,
				PayoutInputPicoUsdPerToken: 1}
		},
	} {
		m := validEvent()
		spoil(m)
		_, reject := decodeUsage(encode(t, m))
		switch {
		case reject == nil:
			t.Errorf("%s: reject: got nil, want a value", name)
		case reject.Reason != usage.Invalid:
			t.Errorf("%s: reject.Reason: got %q, want %q", name, reject.Reason, usage.Invalid)
		case reject.Detail == "":
			t.Errorf(`%s: reject.Detail: got "", want some text`, name)
		}
		if name == "hub" && reject.Hub != "" {
			t.Error("a malformed hub id would become a subject")
		}
	}
}

func TestEveryNameOfTheContractIsStored(t *testing.T) {
	for number, name := range eventsv1.Ending_name {
		if stored := endings[eventsv1.Ending(number)]; (stored == "") != (number == 0) {
			t.Errorf(`%s is stored: stored == "": got %t, want %t`, name, stored == "", number == 0)
		}
	}
	for number, name := range eventsv1.ClaimState_name {
		if stored := claimStates[eventsv1.ClaimState(number)]; (stored == "") != (number == 0) {
			t.Errorf(`%s is stored: stored == "": got %t, want %t`, name, stored == "", number == 0)
		}
	}
	for number, name := range eventsv1.RouteMode_name {
		if stored := RouteMode(eventsv1.RouteMode(number)); (stored == "") != (number == 0) {
			t.Errorf(`%s is stored: stored == "": got %t, want %t`, name, stored == "", number == 0)
		}
	}
	for number, name := range eventsv1.FallbackReason_name {
		if stored := FallbackReason(eventsv1.FallbackReason(number)); (stored == "") != (number == 0) {
			t.Errorf(`%s is stored: stored == "": got %t, want %t`, name, stored == "", number == 0)
		}
	}
}

// FuzzDecodeUsage wants of any payload either an event that is valid and has
// one hash, or a reject that the quarantine can take.
func FuzzDecodeUsage(f *testing.F) {
	f.Add(encode(f, validEvent()))
	image := validEvent()
	image.Rates.Unit = moneyv1.Unit_UNIT_IMAGE
	f.Add(encode(f, image))
	f.Add([]byte{})
	f.Add([]byte("\xff\xff\xff"))
	f.Add(encode(f, &eventsv1.UsageEvent{Attempt: 1 << 31, EndedAt: &timestamppb.Timestamp{Seconds: 1 << 62}}))
	reasons := []usage.Result{usage.Undecodable, usage.Invalid}
	f.Fuzz(func(t *testing.T, payload []byte) {
		d, reject := decodeUsage(payload)
		if reject != nil {
			switch {
			case !slices.Contains(reasons, reject.Reason):
				t.Fatalf("reasons: got %q, want %q in it", reasons, reject.Reason)
			case len(reject.Detail) > usage.MaxDetail:
				t.Fatalf("len(reject.Detail): got %d, want at most %d, in %+v", len(reject.Detail), usage.MaxDetail, reject)
			case reject.Hub != "" && !usage.ValidHub(reject.Hub):
				t.Fatal(`usage.ValidHub(reject.Hub): got false, want true, where reject.Hub != ""`)
			}
			return
		}
		if err := d.Event.Validate(); err != nil {
			t.Fatalf("accepted an invalid event: %v", err)
		}
		again, reject := decodeUsage(payload)
		if reject != nil {
			t.Fatalf("the same payload again: reject: got %+v, want nil", reject)
		}
		if got, want := again.Event.Hash(), d.Event.Hash(); got != want {
			t.Fatalf("the same payload again: again.Event.Hash(): got %v, want %v", got, want)
		}
	})
}

func TestUsagePublishedByAReviewIsReadAsItWas(t *testing.T) {
	for _, source := range []usage.EvidenceSource{usage.Hub, usage.Gateway} {
		for ending := range eventsv1.Ending_name {
			m := validEvent()
			m.Rates.Unit = []moneyv1.Unit{moneyv1.Unit_UNIT_TOKEN, moneyv1.Unit_UNIT_IMAGE,
				moneyv1.Unit_UNIT_AUDIO_MINUTE}[ending%3]
			m.Ending, m.Settled = eventsv1.Ending(ending), true
			m.EvidenceSource = evidenceSourceToProto(source)
			m.Route = &eventsv1.Route{Mode: eventsv1.RouteMode_ROUTE_MODE_EXPLICIT, RequestedProviderId: "p",
				FallbackReason: eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED}
			m.DispatchedAt, m.EndedAt = timestamppb.New(time.Unix(7, 1000)), nil
			m.ClaimedPromptTokens, m.ClaimedCompletionTokens, m.RecountedCompletionTokens = 1, 2, 3
			m.DeliveredBytes, m.EstimatedPromptTokens, m.FirstContentMs, m.Epoch, m.BillablePromptTokens = 4, 5, 6, 7, 8
			m.ConnectionMode = []eventsv1.ConnectionMode{eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET,
				eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL, 9}[ending%3]
			first, err := usageFromProto(m)
			if err != nil {
				t.Fatal(err)
			}
			again := usageToProto(first)
			if !proto.Equal(again, m) {
				t.Errorf("again: got %v, want %v", again, m)
			}
		}
	}
}

func TestOnlyAHubThatIsOlderThanTheFieldMeansAWebSocketByNoMode(t *testing.T) {
	for source, want := range map[eventsv1.EvidenceSource]int16{
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_UNSPECIFIED:  1,
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB:          1,
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY:      0,
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_WORK_RECEIPT: 0,
	} {
		m := validEvent()
		m.EvidenceSource = source
		if d, reject := decodeUsage(encode(t, m)); reject != nil {
			t.Errorf("%v: reject: got %+v, want nil", source, reject)
		} else if d.Event.Mode != want {
			t.Errorf("%v: mode: got %d, want %d", source, d.Event.Mode, want)
		}
	}
}

func TestAModeOutOfRangeIsStoredAsTheNearestNumber(t *testing.T) {
	for mode, want := range map[eventsv1.ConnectionMode]int16{-1: 0, 9: 9, math.MaxInt32: math.MaxInt16} {
		m := validEvent()
		m.ConnectionMode = mode
		if d, reject := decodeUsage(encode(t, m)); reject != nil {
			t.Errorf("mode %d: reject: got %+v, want nil", mode, reject)
		} else if d.Event.Mode != want {
			t.Errorf("mode %d: got %d, want %d", mode, d.Event.Mode, want)
		}
	}
}

// A hub that was upgraded between two publications names the mode in the second alone.
func TestAnEventIsTheSameOnceItsHubNamesTheWebSocket(t *testing.T) {
	event := func(mode eventsv1.ConnectionMode) usage.Event {
		m := validEvent()
		m.ConnectionMode = mode
		d, reject := decodeUsage(encode(t, m))
		if reject != nil {
			t.Fatalf("mode %d: reject: got %+v, want nil", mode, reject)
		}
		return d.Event
	}
	hash := func(mode eventsv1.ConnectionMode) [32]byte { return event(mode).Hash() }
	before := hash(eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED)
	if got := hash(eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET); got != before {
		t.Errorf("the hash with the mode: got %x, want %x, the hash without", got, before)
	}
	bare := event(eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET)
	bare.Mode = 0 // as a release that knows no modes reads it
	if got := bare.Hash(); got != before {
		t.Errorf("the hash in a release without modes: got %x, want %x", got, before)
	}
	if got := hash(eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL); got == before {
		t.Error("the hash of an external provider is that of a WebSocket")
	}
}

func TestAnUnknownEvidenceSourceIsRejected(t *testing.T) {
	m := validEvent()
	m.EvidenceSource = 9
	if _, reject := decodeUsage(encode(t, m)); reject == nil {
		t.Error("reject: got nil, want a value")
	} else if reject.Reason != usage.Invalid {
		t.Errorf("reject.Reason: got %q, want %q", reject.Reason, usage.Invalid)
	}
	m.EvidenceSource = eventsv1.EvidenceSource_EVIDENCE_SOURCE_UNSPECIFIED // a hub older than the field
	if d, reject := decodeUsage(encode(t, m)); reject != nil {
		t.Errorf("reject: got %+v, want nil", reject)
	} else if d.Event.EvidenceSource != usage.Hub {
		t.Errorf("d.Event.EvidenceSource: got %q, want %q", d.Event.EvidenceSource, usage.Hub)
	}
}
