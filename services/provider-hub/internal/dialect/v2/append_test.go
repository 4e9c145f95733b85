package v2

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/dialect"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// written is a message for an agent.
func written(t testing.TB, out session.Outbound) []byte {
	t.Helper()
	head, body, tail, err := codec{}.Append([]byte("before"), &out)
	if err != nil {
		t.Fatal(err)
	}
	msg, ok := bytes.CutPrefix(head, []byte("before"))
	if !ok || len(body) > 0 || tail != "" {
		t.Fatalf("got %q, %q, %q, want all of the message behind what was there before", head, body, tail)
	}
	return msg
}

var (
	messageProvider, messageRequest = ids.ProviderID{1}, ids.RequestID{2}
	messageEnd                      = &session.CloseReason{
		Code: agentwire.CodeSuspended, Message: "because", ReconnectAfter: time.Second,
	}
)

// eachMessage is a message of each kind, and the frame that it is.
var eachMessage = map[string]struct {
	out  session.Outbound
	want *agentv2.Frame
}{
	"REGISTER_ACK": {
		session.Outbound{Kind: session.OutRegistered, Name: "of v1", Ack: &session.Ack{
			Grant: session.Grant{
				ProviderID: messageProvider, ProviderName: "P", Epoch: 7, Status: "active", Active: true, Warning: "w",
			},
			HeartbeatInterval: 10 * time.Second, Refused: map[string]string{"m": "why"},
		}},
		&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{
			ProviderId: messageProvider.String(), ProviderName: "P", Epoch: 7, Status: "active", HeartbeatIntervalMs: 10_000,
			RefusedModels: map[string]string{"m": "why"}, Warning: "w",
		}}},
	},
	"HEARTBEAT_ACK": {
		session.Outbound{Kind: session.OutHeartbeat},
		&agentv2.Frame{Body: &agentv2.Frame_HeartbeatAck{HeartbeatAck: &agentv2.HeartbeatAck{}}},
	},
	"HEARTBEAT_ACK that tells": {
		session.Outbound{Kind: session.OutHeartbeat, Ack: &session.Ack{Grant: session.Grant{Status: "active"}, Machines: 2}},
		&agentv2.Frame{Body: &agentv2.Frame_HeartbeatAck{HeartbeatAck: &agentv2.HeartbeatAck{Status: "active", Machines: 2}}},
	},
	"OPEN": {
		session.Outbound{Kind: session.OutOpen, Length: 99, Open: &session.Request{
			RequestID: "r", Attempt: 2, Model: "m", Kind: meter.Images, Stream: true, ContentType: "c", ModelOffset: 3,
			ModelLength: 4, Traceparent: "t", Timeout: time.Minute, Proof: []byte("p"),
		}},
		&agentv2.Frame{Body: &agentv2.Frame_Open{Open: &agentv2.Open{
			RequestId: "r", Attempt: 2, ModelId: "m", Stream: true, ContentType: "c", ModelOffset: 3, ModelLength: 4,
			BodyLength: 99, Traceparent: "t", TimeoutMs: 60_000, Proof: []byte("p"),
			Endpoint: agentv2.Endpoint_ENDPOINT_IMAGES,
		}}},
	},
	"DATA": {
		session.Outbound{Kind: session.OutData, Data: []byte("x"), Fin: true},
		&agentv2.Frame{Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: []byte("x"), Fin: true}}},
	},
	"DATA without bytes": {
		session.Outbound{Kind: session.OutData, Fin: true},
		&agentv2.Frame{Body: &agentv2.Frame_Data{Data: &agentv2.Data{Fin: true}}},
	},
	"WINDOW": {session.Outbound{Kind: session.OutCredit, Credit: 5}, frame.Window(0, 0, 5)},
	"CANCEL": {
		session.Outbound{Kind: session.OutCancel},
		&agentv2.Frame{Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}},
	},
	"ERROR of a stream": {
		session.Outbound{Kind: session.OutReset, Why: &session.CloseReason{Code: "c", Message: "m"}},
		&agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "c", Message: "m"}}},
	},
	"DRAIN": {
		session.Outbound{Kind: session.OutDrain, After: time.Second},
		&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{ReconnectAfterMs: 1000}}},
	},
	"WARMUP": {
		session.Outbound{Kind: session.OutWarmUp, Model: "m"},
		&agentv2.Frame{Body: &agentv2.Frame_Warmup{Warmup: &agentv2.Warmup{ModelId: "m"}}},
	},
	"RECEIPT_ACK": {
		session.Outbound{Kind: session.OutReceipts, Receipts: []session.Acknowledged{
			{Key: workreceipt.Key{Request: messageRequest, Attempt: 3}, Refused: "malformed"},
		}},
		&agentv2.Frame{Body: &agentv2.Frame_ReceiptAck{ReceiptAck: &agentv2.ReceiptAck{
			Receipts: []*agentv2.AckedReceipt{{RequestId: messageRequest[:], Attempt: 3, Refused: "malformed"}},
		}}},
	},
	"ERROR of the connection": {
		session.Outbound{Kind: session.OutFarewell, Why: messageEnd},
		&agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{
			Code: agentwire.CodeSuspended, Message: "because", ReconnectAfterMs: 1000,
		}}},
	},
}

func TestAFingerprintIsItsFrame(t *testing.T) {
	t.Parallel()
	task := &session.Fingerprint{
		Nonce: []byte("n"), ChainLength: 9, Ranges: []session.FileRange{{File: "a", Offset: 1, Length: 2}},
		ChainFiles: []session.ChainFile{{File: "b", Size: 3}},
	}
	asked := &session.Request{RequestID: "r", Model: "m", Challenge: &session.Challenge{ID: "c", Task: task}}
	got := written(t, session.Outbound{Kind: session.OutChallenge, Seq: 4, Model: "m", Open: asked})
	want := message(t, &agentv2.Frame{Seq: 4, Body: &agentv2.Frame_Challenge{Challenge: &agentv2.Challenge{
		ChallengeId: "c", ModelId: "m", Nonce: []byte("n"), ChainLength: 9,
		Ranges:     []*agentv2.FileRange{{File: "a", Offset: 1, Length: 2}},
		ChainFiles: []*agentv2.ChainFile{{File: "b", Size: 3}},
	}}})
	if !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// The largest fingerprint that is asked for fits in a frame.
func TestTheLargestFingerprintFitsInAMessage(t *testing.T) {
	t.Parallel()
	task := &session.Fingerprint{Nonce: make([]byte, 32), ChainLength: 256}
	name := strings.Repeat("x", 255)
	for range session.MaxRanges {
		task.Ranges = append(task.Ranges, session.FileRange{File: name, Offset: 1 << 50, Length: 1 << 20})
	}
	for range 64 {
		task.ChainFiles = append(task.ChainFiles, session.ChainFile{File: name, Size: 1 << 50})
	}
	asked := &session.Request{Model: "m", Challenge: &session.Challenge{ID: strings.Repeat("c", 64), Task: task}}
	got := written(t, session.Outbound{Kind: session.OutChallenge, Seq: 1 << 31, Model: strings.Repeat("m", 200),
		Open: asked})
	if len(got) > agentwire.MaxMessage {
		t.Errorf("got %d bytes, want at most %d", len(got), agentwire.MaxMessage)
	}
}

func TestEachMessageIsItsFrame(t *testing.T) {
	t.Parallel()
	for name, tc := range eachMessage {
		tc.out.Stream, tc.out.Seq = 3, 4
		tc.want.Stream, tc.want.Seq = 3, 4
		if got, want := written(t, tc.out), message(t, tc.want); !bytes.Equal(got, want) {
			f := &agentv2.Frame{}
			t.Errorf("%s: got %v, %v, want %v", name, f, proto.Unmarshal(got, f), tc.want)
		}
	}
}

func TestEachKindOfRequestHasItsEndpoint(t *testing.T) {
	t.Parallel()
	want := [...]agentv2.Endpoint{
		meter.Chat: agentv2.Endpoint_ENDPOINT_UNSPECIFIED, meter.Embeddings: agentv2.Endpoint_ENDPOINT_EMBEDDINGS,
		meter.Images: agentv2.Endpoint_ENDPOINT_IMAGES, meter.Transcriptions: agentv2.Endpoint_ENDPOINT_TRANSCRIPTIONS,
	}
	if len(want) != len(meter.Kinds()) {
		t.Fatalf("got %d kinds, want %d", len(want), len(meter.Kinds()))
	}
	for k, endpoint := range want {
		if got := endpointOf(meter.Kind(k)); got != endpoint {
			t.Errorf("%v: got %v, want %v", meter.Kind(k), got, endpoint)
		}
	}
}

func TestAPieceOfABodyCostsNoAllocation(t *testing.T) {
	out := session.Outbound{Kind: session.OutData, Stream: 1, Seq: 2, Data: make([]byte, agentwire.MaxData)}
	room := make([]byte, 0, agentwire.MaxMessage)
	got := testing.AllocsPerRun(100, func() {
		if _, _, _, err := (codec{}).Append(room, &out); err != nil {
			t.Error(err)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func TestWhatCannotBeWrittenIsAnErrorAndNothing(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]session.Outbound{
		"a kind that there is not": {},
		"a text that is no UTF-8":  {Kind: session.OutWarmUp, Model: "\xff"},
		"a task of v1": {Kind: session.OutChallenge, Open: &session.Request{
			Challenge: &session.Challenge{Task: &session.Benchmark{}},
		}},
	} {
		if head, _, _, err := (codec{}).Append([]byte("before"), &out); err == nil || string(head) != "before" {
			t.Errorf("%s: got %q, %v, want an error and what was there before", name, head, err)
		}
	}
}

func TestAnAgentIsAlwaysToldWhyUnlessItSpeaksNoWebSocket(t *testing.T) {
	t.Parallel()
	c := New(time.Minute)
	for why, want := range map[session.CloseReason]dialect.Ending{
		{Code: agentwire.CodeShuttingDown, Hold: time.Second}: {Status: wsconn.StatusNormal, Hold: time.Second},
		{Hold: time.Second, Status: wsconn.StatusTooBig, Bare: true}: {
			Status: wsconn.StatusTooBig, Hold: time.Second, Silent: true,
		},
	} {
		if got := c.Ending(&why); got != want {
			t.Errorf("%+v: got %+v, want %+v", why, got, want)
		}
	}
}
