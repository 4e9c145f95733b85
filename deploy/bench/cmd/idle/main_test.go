package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func field(n protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), text)
}

func TestAnAckAcceptsAndAnErrorSaysWhy(t *testing.T) {
	seq := protowire.AppendVarint(protowire.AppendTag(nil, frameSeq, protowire.VarintType), 1)
	if err := accepted(append(seq, field(frameRegisterAck, "")...)); err != nil {
		t.Errorf("an ack is refused: %v", err)
	}
	if err := accepted(append(seq, field(frameError, "suspended")...)); err == nil {
		t.Error("an error: got no error, want one")
	} else if !strings.Contains(err.Error(), "suspended") {
		t.Errorf(`an error: got the error %q, want "suspended" in it`, err)
	}
	if accepted(nil) == nil {
		t.Error("nothing is taken for an ack: accepted(nil): got no error, want one")
	} else if accepted(seq) == nil {
		t.Error("nothing is taken for an ack: accepted(seq): got no error, want one")
	}
}

func FuzzAccepted(f *testing.F) {
	f.Add(field(frameRegisterAck, "x"))
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if accepted(frame) == nil && len(frame) == 0 {
			t.Error("nothing is taken for an ack")
		}
	})
}

func TestARegistrationNamesKeyNodeAndModel(t *testing.T) {
	frame := string(registration("key-1", "node-0001", "mock-t16"))
	for _, want := range []string{"key-1", "node-0001", "mock-t16"} {
		if !strings.Contains(frame, want) {
			t.Errorf("%q in the frame: got %q, want %q in it", want, frame, want)
		}
	}
}
