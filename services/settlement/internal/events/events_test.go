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
		default:
			t.Errorf("one payload twice became %d lines and %d set aside", len(lines), len(rejected))
		}
	})
}
