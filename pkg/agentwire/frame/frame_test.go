package frame

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// message is a frame as protobuf itself writes it.
func message(t testing.TB, f *agentv2.Frame) []byte {
	t.Helper()
	msg, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// dataOf is d as a message of protobuf.
func dataOf(d Data) *agentv2.Frame {
	return &agentv2.Frame{Stream: d.Stream, Seq: d.Seq, Body: &agentv2.Frame_Data{
		Data: &agentv2.Data{Data: d.Bytes, Fin: d.Fin},
	}}
}

// shapes are the kinds of DATA that encoders write.
var shapes = []Data{
	{},
	{Stream: 1, Seq: 1},
	{Stream: 1, Seq: 1, Fin: true},
	{Stream: 1, Seq: 1, Bytes: []byte("x")},
	{Stream: 1, Seq: 1, Bytes: []byte("x"), Fin: true},
	{Seq: 5, Bytes: make([]byte, 127)},
	{Stream: 7, Bytes: make([]byte, 128)},
	{Stream: 300, Seq: 70_000, Bytes: make([]byte, agentwire.MaxData), Fin: true},
	{Stream: 1<<32 - 1, Seq: 1<<32 - 1, Bytes: make([]byte, agentwire.MaxData)},
}

func TestDataIsWrittenAsProtobufWritesIt(t *testing.T) {
	for _, d := range shapes {
		got, want := AppendData([]byte("before"), d), append([]byte("before"), message(t, dataOf(d))...)
		if !bytes.Equal(got, want) {
			t.Errorf("stream %d, frame %d, %d bytes: got %x, want %x", d.Stream, d.Seq, len(d.Bytes), got, want)
		}
	}
}

func TestDataCostsNoAllocation(t *testing.T) {
	d, room := shapes[len(shapes)-1], make([]byte, 0, agentwire.MaxMessage)
	got := testing.AllocsPerRun(100, func() {
		if _, ok := ReadData(AppendData(room, d)); !ok {
			t.Error("DATA: got refused, want read")
		}
	})
	if got != 0 {
		t.Errorf("writing and reading DATA: got %v allocations, want 0", got)
	}
}

// same reports whether both decoders read the same DATA.
func same(d Data, f *agentv2.Frame) bool {
	return f.GetData() != nil && d.Stream == f.GetStream() && d.Seq == f.GetSeq() &&
		bytes.Equal(d.Bytes, f.GetData().GetData()) && d.Fin == f.GetData().GetFin()
}

func TestPlainDataIsReadAsTheFullDecoderReadsIt(t *testing.T) {
	for _, d := range shapes {
		got, ok := ReadData(message(t, dataOf(d)))
		if !ok {
			t.Errorf("stream %d, frame %d: got refused, want read", d.Stream, d.Seq)
		}
		if !same(got, dataOf(d)) {
			t.Errorf("got %+v, want %+v", got, d)
		}
	}
}

func FuzzReadDataAgreesWithTheFullDecoder(f *testing.F) {
	for _, d := range shapes[:7] {
		f.Add(message(f, dataOf(d)))
	}
	f.Add(message(f, &agentv2.Frame{Stream: 1, Seq: 2, Body: &agentv2.Frame_End{End: &agentv2.End{Complete: true}}}))
	f.Add([]byte{8, 1, 16, 1, 66, 2, 8, 1})
	f.Add([]byte{66, 0, 66, 0})
	f.Add([]byte{66, 4, 16, 1, 16, 0}) // fin twice: the last counts
	f.Fuzz(func(t *testing.T, msg []byte) {
		got, ok := ReadData(msg)
		if !ok {
			return
		}
		want, err := Read(msg)
		if err != nil {
			t.Fatalf("got %+v, want the full decoder's error %v", got, err)
		}
		if !same(got, want) {
			t.Fatalf("got %+v, want %v", got, want)
		}
	})
}

func FuzzDataIsWrittenAsProtobufWritesIt(f *testing.F) {
	for _, d := range shapes[:7] {
		f.Add(d.Stream, d.Seq, d.Bytes, d.Fin)
	}
	f.Fuzz(func(t *testing.T, stream, seq uint32, b []byte, fin bool) {
		d := Data{Stream: stream, Seq: seq, Bytes: b, Fin: fin}
		if got, want := AppendData(nil, d), message(t, dataOf(d)); !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	if _, err := Read([]byte{0xff, 0xff}); !errors.Is(err, ErrNotFrame) {
		t.Errorf("got %v, want %v", err, ErrNotFrame)
	}
	before := []byte("before")
	got, err := Append(before, &agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{Message: "\xff"}}})
	if err == nil {
		t.Error("a text that is not UTF-8: got no error, want one")
	}
	if !bytes.Equal(got, before) {
		t.Errorf("got %q, want what was there before", got)
	}
}

func TestAWindowFrameNamesItsStreamAndCredit(t *testing.T) {
	f := Window(3, 4, 5)
	if got := []uint32{f.GetStream(), f.GetSeq(), f.GetWindow().GetBytes()}; got[0] != 3 || got[1] != 4 || got[2] != 5 {
		t.Errorf("got %v, want [3 4 5]", got)
	}
}

func sampleReceipt() workreceipt.Receipt {
	return workreceipt.Receipt{
		Request: ids.RequestID{1, 15: 2}, Attempt: 3, Provider: ids.ProviderID{4}, Epoch: 5, Model: "acme/tiny",
		Claimed: true, ClaimedPrompt: 6, ClaimedCompletion: 7, SentTokens: 8, SentBytes: 90, Complete: true,
		EndedAt: time.UnixMilli(1_790_000_000_123).UTC(), Proof: []byte("proof"),
	}
}

func FuzzAReceiptThatTravelsIsTheOneThatWasSigned(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	good, err := EncodeReceipt(workreceipt.Sign(key, sampleReceipt()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeReceipt(data)
		if err != nil {
			if !errors.Is(err, workreceipt.ErrMalformed) {
				t.Fatalf("got %v, want %v", err, workreceipt.ErrMalformed)
			}
			return
		}
		again, err := ReadReceipt(Receipt(s))
		if err != nil {
			t.Fatalf("a receipt that was read: got %v, want it read again", err)
		}
		if !bytes.Equal(again.Canonical(), s.Canonical()) || again.Signature != s.Signature {
			t.Fatalf("got %+v, want %+v", again, s)
		}
		// Only the holder of the key makes a receipt that verifies.
		public, _ := key.Public().(ed25519.PublicKey)
		if s.Verify(public) == nil && !bytes.Equal(s.Canonical(), sampleReceipt().Canonical()) {
			t.Fatalf("forged: %+v", s)
		}
	})
}
