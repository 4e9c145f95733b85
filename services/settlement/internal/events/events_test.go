package events

import (
	"testing"

	"google.golang.org/protobuf/proto"

	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
)

func FuzzEveryPayloadBecomesALineOrIsSetAside(f *testing.F) {
	good, err := proto.Marshal(&eventsv1.UsageEvent{
		RequestId: "0192f0c0-0000-7000-8000-000000000003", Attempt: 1, ModelId: "m", HubId: "hub-1",
		ProviderId: "0192f0c0-0000-7000-8000-000000000001", PriceVersionId: "0192f0c0-0000-7000-8000-000000000002",
		BillableCompletionTokens: 3, Rates: &moneyv1.Rates{OutputPicoUsdPerToken: 2, PayoutOutputPicoUsdPerToken: 1},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	image, err := proto.Marshal(&eventsv1.UsageEvent{
		RequestId: "0192f0c0-0000-7000-8000-000000000003", Attempt: 1, ModelId: "m", HubId: "hub-1",
		ProviderId: "0192f0c0-0000-7000-8000-000000000001", PriceVersionId: "0192f0c0-0000-7000-8000-000000000002",
		BillableCompletionTokens: 3, Rates: &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_IMAGE, OutputPicoUsdPerToken: 2,
			PayoutOutputPicoUsdPerToken: 1},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(image)
	f.Add([]byte{0xff, 0x01})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		b := sortOut([]incoming{{payload: payload}, {payload: payload}})
		lines, rejected := b.Lines, b.Rejected
		switch {
		case len(lines) == 1 && len(rejected) == 0:
			switch l := lines[0]; {
			case l.Payout < 0:
				t.Errorf("line: l.Payout: got %v, want at least 0", l.Payout)
			case l.Tokens.Prompt < 0:
				t.Errorf("line: l.Tokens.Prompt: got %d, want at least 0", l.Tokens.Prompt)
			case l.Tokens.Completion < 0:
				t.Errorf("line: l.Tokens.Completion: got %d, want at least 0", l.Tokens.Completion)
			case l.RequestID.IsZero():
				t.Error("line: l.RequestID.IsZero(): got true, want false")
			}
		case len(lines) == 0 && len(rejected) == 2:
		case len(lines) == 0 && len(rejected) == 0 && ofVendor(payload):
		default:
			t.Errorf("one payload twice became %d lines and %d set aside", len(lines), len(rejected))
		}
	})
}

func ofVendor(payload []byte) bool {
	event := &eventsv1.UsageEvent{}
	return proto.Unmarshal(payload, event) == nil && event.GetVendor()
}

func TestWhatAVendorServedIsNoEarning(t *testing.T) {
	for _, settled := range []bool{false, true} {
		event := &eventsv1.UsageEvent{
			RequestId: "0192f0c0-0000-7000-8000-000000000003", Attempt: 1, ModelId: "openai/x", HubId: "hub-1",
			ProviderId: "0192f0c0-0000-7000-8000-000000000001", PriceVersionId: "0192f0c0-0000-7000-8000-000000000002",
			BillableCompletionTokens: 3, ClaimedCachedPromptTokens: 1, Settled: settled,
			Rates: &moneyv1.Rates{InputPicoUsdPerToken: 9, OutputPicoUsdPerToken: 2, PayoutInputPicoUsdPerToken: 8,
				PayoutOutputPicoUsdPerToken: 1, PayoutCachedInputPicoUsdPerToken: 4},
		}
		for _, vendor := range []bool{true, false} {
			event.Vendor = vendor
			payload, err := proto.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			b := sortOut([]incoming{{payload: payload}})
			if (len(b.Lines) == 0) != vendor {
				t.Errorf("settled %t, of a vendor %t: got %d lines", settled, vendor, len(b.Lines))
			}
			if (len(b.Rulings) == 1) != (settled && !vendor) {
				t.Errorf("settled %t, of a vendor %t: got %d rulings", settled, vendor, len(b.Rulings))
			}
			if len(b.Rejected) != 0 {
				t.Errorf("settled %t, of a vendor %t: got %d set aside, want 0", settled, vendor, len(b.Rejected))
			}
		}
	}
}
