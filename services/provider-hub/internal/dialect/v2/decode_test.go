package v2

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/session"
)

// message is a frame as protobuf writes it.
func message(t testing.TB, f *agentv2.Frame) []byte {
	t.Helper()
	msg, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// read decodes a message that can be read.
func read(t testing.TB, msg []byte) session.Inbound {
	t.Helper()
	in := session.Inbound{Name: []byte("of the message before")}
	if err := (codec{}).Decode(msg, &in); err != nil {
		t.Fatalf("%x: got %v, want it read", msg, err)
	}
	return in
}

// signed is a work receipt of an agent.
func signed() workreceipt.Signed {
	return workreceipt.Sign(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), workreceipt.Receipt{
		Request: ids.RequestID{1}, Attempt: 2, Provider: ids.ProviderID{3}, Epoch: 4, Model: "m",
		SentTokens: 5, SentBytes: 6, Complete: true, EndedAt: time.UnixMilli(1_790_000_000_000).UTC(), Proof: []byte("p"),
	})
}

// sample is a frame of an agent, and what is read of it but for the numbers and the
// size.
type sample struct {
	frame *agentv2.Frame
	want  session.Inbound
}

// frames are what agents send, but for registrations.
func frames() map[string]sample {
	named := bytes.Repeat([]byte{9}, 16)
	invalid := signed()
	invalid.SentTokens = -1
	return map[string]sample{
		"DATA": {
			&agentv2.Frame{Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: []byte("x")}}},
			session.Inbound{Kind: session.KindData, Data: []byte("x")},
		},
		"DATA without bytes": {
			&agentv2.Frame{Body: &agentv2.Frame_Data{Data: &agentv2.Data{}}}, session.Inbound{Kind: session.KindData},
		},
		"END": {
			&agentv2.Frame{Body: &agentv2.Frame_End{End: &agentv2.End{
				EngineStatus: 503, Complete: true, Error: "e", Busy: true,
			}}},
			session.Inbound{Kind: session.KindEnd, End: &session.End{Status: 503, Complete: true, Error: "e", Busy: true}},
		},
		"ERROR": {
			&agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "x"}}},
			session.Inbound{Kind: session.KindReset},
		},
		"WINDOW": {frame.Window(0, 0, 5), session.Inbound{Kind: session.KindCredit, Credit: 5}},
		"DRAIN": {
			&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}}, session.Inbound{Kind: session.KindDrain},
		},
		"WARMUP": {
			&agentv2.Frame{Body: &agentv2.Frame_WarmupResult{WarmupResult: &agentv2.WarmupResult{
				ModelId: "m", Success: true, LoadTimeMs: 1 << 40, Error: "e", NotTried: true,
			}}},
			session.Inbound{Kind: session.KindWarmUp, WarmUp: &session.Warmed{
				Model: "m", Success: true, LoadTime: time.Hour, Error: "e", NotTried: true,
			}},
		},
		"RECEIPT": {
			&agentv2.Frame{Body: &agentv2.Frame_Receipts{Receipts: &agentv2.Receipts{Receipts: []*agentv2.Receipt{
				frame.Receipt(signed()), {}, {RequestId: named, Attempt: 7, ModelId: "m"}, frame.Receipt(invalid),
			}}}},
			session.Inbound{Kind: session.KindReceipts, Receipts: []session.Receipt{
				{Signed: signed()}, {Malformed: true},
				{Malformed: true, Named: true, Signed: workreceipt.Signed{
					Receipt: workreceipt.Receipt{Request: ids.RequestID(named), Attempt: 7},
				}},
				{Malformed: true, Named: true, Signed: workreceipt.Signed{
					Receipt: workreceipt.Receipt{Request: invalid.Request, Attempt: invalid.Attempt},
				}},
			}},
		},
		"HEARTBEAT": {
			&agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{
				ActiveRequests: 1, QueuedRequests: 2, Models: []*agentv2.ModelOffer{{ModelId: "m", Healthy: true}},
			}}},
			session.Inbound{Kind: session.KindHeartbeat, Heartbeat: &session.Heartbeat{
				Active: 1, Queued: 2, Loaded: true, Models: session.Models{Replaces: true, List: []session.ModelNews{
					{Whole: true, Offer: session.Offer{Model: "m", Healthy: true}},
				}},
			}},
		},
		"a heartbeat without models": {
			&agentv2.Frame{Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{}}},
			session.Inbound{Kind: session.KindHeartbeat, Heartbeat: &session.Heartbeat{
				Loaded: true, Models: session.Models{List: []session.ModelNews{}},
			}},
		},
		"a later frame": {&agentv2.Frame{}, session.Inbound{Kind: session.KindLater}},
		"a frame of hubs": {
			&agentv2.Frame{Body: &agentv2.Frame_Open{Open: &agentv2.Open{}}}, session.Inbound{Kind: session.KindAlien},
		},
	}
}

func TestEachFrameIsReadAsItsKind(t *testing.T) {
	t.Parallel()
	for name, tc := range frames() {
		tc.frame.Stream, tc.frame.Seq = 3, 4
		msg := message(t, tc.frame)
		tc.want.Stream, tc.want.Seq, tc.want.Size = 3, 4, int64(len(msg))
		if got := read(t, msg); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestARegistrationIsReadAsItCame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", session.MaxModelID+1)
	key := make([]byte, ed25519.PublicKeySize)
	in := read(t, message(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: &agentv2.Register{
		NodeId: "node-0001", NodeName: "\x01N", AgentVersion: "1", Region: "eu", Token: "k", OwnerAddress: "0xab",
		Signature: []byte{1}, AuthNonce: "n", Capabilities: []string{"chat", "  "}, MaxRequestBytes: 5, ReceiptKey: key,
		Hardware: &agentv2.Hardware{
			GpuType: "T", GpuModel: "M", GpuCount: 2, MemoryTotalMb: 8188, ComputeCapability: "8.9", DriverVersion: "d",
			CudaVersion: "c", ServingEngine: "vllm",
		},
		Models: []*agentv2.ModelOffer{
			{ModelId: "m", ContextLength: -1, Quantization: "q", Capacity: 1 << 30, Healthy: true, EngineModel: "e",
				Engine: "vllm", Revision: "r"},
			{ModelId: "m"}, {ModelId: "b c"}, {ModelId: long},
		},
	}}}))
	want := &session.Register{
		Node: "node-0001", NodeName: "\x01N", AgentVersion: "1", Region: "eu",
		Credential:   session.Credential{Key: "k", Owner: "0xab", Signature: []byte{1}, Nonce: "n"},
		Capabilities: []string{"chat", "  "}, MaxRequestBytes: 5, ReceiptKey: key,
		Hardware: &gpu.Report{
			Type: "T", Model: "M", Count: 2, MemoryMB: 8188, ComputeCapability: "8.9", Driver: "d", CUDA: "c", Engine: "vllm",
		},
		Models: session.Models{Replaces: true, List: []session.ModelNews{{Whole: true, Offer: session.Offer{
			Model: "m", ContextLength: -1, Quantization: "q", Capacity: 1 << 30, Healthy: true, EngineModel: "e",
			Engine: "vllm", Revision: "r",
		}}}},
		Refused: map[string]string{"m": "registered twice", "b c": "not a model id", long[1:]: "not a model id"},
	}
	if in.Kind != session.KindRegister || !reflect.DeepEqual(in.Register, want) {
		t.Errorf("got %+v, want %+v", in.Register, want)
	}
}

func TestARegistrationThatIsRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	const badNode = "node_id must be 8 to 64 of letters, digits, dot, underscore and hyphen"
	for _, tc := range []struct {
		register *agentv2.Register
		want     string
	}{
		{&agentv2.Register{Capabilities: make([]string, maxCapabilities+1)}, "at most 32 capabilities can be declared"},
		{&agentv2.Register{ReceiptKey: []byte{1}}, badNode},
		{&agentv2.Register{NodeId: "node-0001", ReceiptKey: []byte{1}},
			"receipt_key must be the 32 bytes of an Ed25519 public key"},
	} {
		in := read(t, message(t, &agentv2.Frame{Body: &agentv2.Frame_Register{Register: tc.register}}))
		want := session.Fault{Code: agentwire.CodeProtocolError, Text: tc.want}
		if got := in.Register.Fault; got == nil || *got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	good := read(t, message(t, &agentv2.Frame{Body: &agentv2.Frame_Register{
		Register: &agentv2.Register{NodeId: "node-0001"},
	}}))
	if good.Register.Fault != nil || good.Register.Hardware != nil {
		t.Errorf("got %+v, want no fault and no machine", good.Register)
	}
}

func TestListsThatAreTooLongAreCutWhereThatIsKnown(t *testing.T) {
	t.Parallel()
	offers := make([]*agentv2.ModelOffer, session.MaxModels+1)
	for i := range offers {
		offers[i] = &agentv2.ModelOffer{ModelId: fmt.Sprintf("m-%d", i)}
	}
	register := read(t, message(t, &agentv2.Frame{Body: &agentv2.Frame_Register{
		Register: &agentv2.Register{NodeId: "node-0001", Models: offers},
	}}))
	if m := register.Register.Models; !m.TooMany || len(m.List) > 0 {
		t.Errorf("the models of a registration: got %d, too many: %v, want none, true", len(m.List), m.TooMany)
	}
	heartbeat := read(t, message(t, &agentv2.Frame{Body: &agentv2.Frame_Heartbeat{
		Heartbeat: &agentv2.Heartbeat{Models: offers},
	}}))
	if m := heartbeat.Heartbeat.Models; !m.TooMany || len(m.List) > 0 {
		t.Errorf("the models of a heartbeat: got %d, too many: %v, want none, true", len(m.List), m.TooMany)
	}
	all := make([]*agentv2.Receipt, 3*agentwire.MaxReceipts)
	for i := range all {
		all[i] = &agentv2.Receipt{}
	}
	receipts := read(t, message(t, &agentv2.Frame{Body: &agentv2.Frame_Receipts{
		Receipts: &agentv2.Receipts{Receipts: all},
	}}))
	if got := len(receipts.Receipts); got != agentwire.MaxReceipts+1 {
		t.Errorf("receipts: got %d, want %d", got, agentwire.MaxReceipts+1)
	}
}

func TestWhatIsNoFrameIsMalformed(t *testing.T) {
	t.Parallel()
	var in session.Inbound
	var got *session.Malformed
	err := codec{}.Decode([]byte{0xff, 0xff}, &in)
	if want := (session.Malformed{Text: "a message is not a Frame"}); !errors.As(err, &got) || *got != want {
		t.Errorf("got %+v, want %+v", err, want)
	}
}

func TestAPieceOfAnAnswerCostsNoAllocation(t *testing.T) {
	msg := message(t, &agentv2.Frame{Stream: 1, Seq: 2, Body: &agentv2.Frame_Data{
		Data: &agentv2.Data{Data: make([]byte, 1000)},
	}})
	var in session.Inbound
	got := testing.AllocsPerRun(100, func() {
		if err := (codec{}).Decode(msg, &in); err != nil {
			t.Error(err)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// result is a CHALLENGE_RESULT as a message.
func result(t testing.TB, r *agentv2.ChallengeResult) []byte {
	t.Helper()
	return message(t, &agentv2.Frame{Body: &agentv2.Frame_ChallengeResult{ChallengeResult: r}})
}

func TestAResultIsReadWithItsSizesAndAsJSON(t *testing.T) {
	t.Parallel()
	sent := &agentv2.ChallengeResult{ChallengeId: "c", Digests: [][]byte{{1, 2}, {}}, ChainDigest: []byte{3},
		Error: "b\x00 is gone"}
	in := read(t, result(t, sent))
	if want := (session.Digests{ID: "c", Sizes: []int{2, 0}, Chain: 1}); !reflect.DeepEqual(*in.Digests, want) {
		t.Errorf("digests: got %+v, want %+v", *in.Digests, want)
	}
	if want := (session.End{Complete: true, Error: "b is gone"}); *in.End != want {
		t.Errorf("end: got %+v, want %+v", *in.End, want)
	}
	got := &agentv2.ChallengeResult{}
	if err := protojson.Unmarshal(in.Data, got); err != nil {
		t.Fatal(err)
	}
	sent.Error = in.End.Error
	if !proto.Equal(got, sent) {
		t.Errorf("JSON: got %v, want %v", got, sent)
	}
	in = read(t, result(t, &agentv2.ChallengeResult{ChallengeId: "c", Digests: [][]byte{{}}, Error: "none"}))
	if in.End.Complete {
		t.Error("a result with nothing but an error: got a complete end, want another")
	}
}

func TestAResultOfThousandsOfDigestsIsCutToShowThatThereAreTooMany(t *testing.T) {
	t.Parallel()
	in := read(t, result(t, &agentv2.ChallengeResult{Digests: make([][]byte, 5000)}))
	if got := len(in.Digests.Sizes); got != session.MaxRanges+1 {
		t.Errorf("digests: got %d, want %d", got, session.MaxRanges+1)
	}
}

// FuzzDecode reads messages of any content: it never panics, and what it says of a
// frame is what protobuf reads there.
func FuzzDecode(f *testing.F) {
	for _, tc := range frames() {
		tc.frame.Stream, tc.frame.Seq = 1, 2
		f.Add(message(f, tc.frame))
	}
	f.Add([]byte{66, 0, 66, 0})
	f.Add(result(f, &agentv2.ChallengeResult{ChallengeId: "c", Digests: [][]byte{{1}, {}}, Error: "e"}))
	f.Add(message(f, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: &agentv2.Register{
		NodeId: "node-0001", Models: []*agentv2.ModelOffer{{ModelId: "m"}, {ModelId: "m"}, {ModelId: "x y"}},
	}}}))
	f.Fuzz(func(t *testing.T, msg []byte) {
		var in session.Inbound
		before := bytes.Clone(msg)
		err := codec{}.Decode(msg, &in)
		if !bytes.Equal(msg, before) {
			t.Fatalf("got %x, want the message as it was, %x", msg, before)
		}
		want, refused := frame.Read(msg)
		if (err != nil) != (refused != nil) {
			t.Fatalf("got %v, want what protobuf says: %v", err, refused)
		}
		if err != nil {
			return
		}
		if in.Stream != want.GetStream() || in.Seq != want.GetSeq() || in.Size != int64(len(msg)) {
			t.Fatalf("got %+v, want the numbers of %v", in, want)
		}
		if in.Kind == session.KindAlien || in.Kind == session.KindReset || in.Kind == session.KindRegister {
			return // there is less in the message than in the frame
		}
		again := read(t, message(t, encoded(&in, want)))
		again.Size = in.Size // the message may have had unknown or repeated fields
		if !reflect.DeepEqual(again, in) {
			t.Fatalf("got %+v, want %+v again", again, in)
		}
	})
}

// encoded is the frame of a message that was read from like.
func encoded(in *session.Inbound, like *agentv2.Frame) *agentv2.Frame {
	f := &agentv2.Frame{Stream: in.Stream, Seq: in.Seq}
	switch in.Kind {
	case session.KindData:
		f.Body = &agentv2.Frame_Data{Data: &agentv2.Data{Data: in.Data}}
	case session.KindEnd:
		f.Body = &agentv2.Frame_End{End: &agentv2.End{
			EngineStatus: int32(in.End.Status), Complete: in.End.Complete, Error: in.End.Error, Busy: in.End.Busy,
		}}
	case session.KindCredit:
		f.Body = &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: in.Credit}}
	case session.KindDrain:
		f.Body = &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}
	case session.KindWarmUp:
		f.Body = &agentv2.Frame_WarmupResult{WarmupResult: &agentv2.WarmupResult{
			ModelId: in.WarmUp.Model, Success: in.WarmUp.Success, LoadTimeMs: in.WarmUp.LoadTime.Milliseconds(),
			Error: in.WarmUp.Error, NotTried: in.WarmUp.NotTried,
		}}
	case session.KindDigests:
		result := &agentv2.ChallengeResult{}
		if err := protojson.Unmarshal(in.Data, result); err != nil {
			return nil
		}
		f.Body = &agentv2.Frame_ChallengeResult{ChallengeResult: result}
	case session.KindHeartbeat:
		h := &agentv2.Heartbeat{ActiveRequests: int32(in.Heartbeat.Active), QueuedRequests: int32(in.Heartbeat.Queued)}
		if in.Heartbeat.Models.TooMany || len(in.Heartbeat.Models.List) == 0 {
			h.Models = like.GetHeartbeat().GetModels() // without the refused models
		}
		for _, m := range in.Heartbeat.Models.List {
			h.Models = append(h.Models, &agentv2.ModelOffer{
				ModelId: m.Offer.Model, ContextLength: m.Offer.ContextLength, Quantization: m.Offer.Quantization,
				Capacity: int32(m.Offer.Capacity), Healthy: m.Offer.Healthy, EngineModel: m.Offer.EngineModel,
				Engine: m.Offer.Engine, Revision: m.Offer.Revision,
			})
		}
		f.Body = &agentv2.Frame_Heartbeat{Heartbeat: h}
	case session.KindReceipts:
		all := &agentv2.Receipts{}
		for _, r := range in.Receipts {
			switch {
			case !r.Malformed:
				all.Receipts = append(all.Receipts, frame.Receipt(r.Signed))
			case r.Named:
				all.Receipts = append(all.Receipts, &agentv2.Receipt{RequestId: r.Request[:], Attempt: r.Attempt})
			default:
				all.Receipts = append(all.Receipts, &agentv2.Receipt{})
			}
		}
		f.Body = &agentv2.Frame_Receipts{Receipts: all}
	default:
	}
	return f
}
