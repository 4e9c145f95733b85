package usagebundle_test

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/usagebundle"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

func events(t testing.TB, n int) [][]byte {
	t.Helper()
	out := make([][]byte, n)
	for i := range out {
		data, err := proto.Marshal(&eventsv1.UsageEvent{RequestId: "request", Attempt: uint32(i), Seal: []byte("seal")})
		if err != nil {
			t.Fatal(err)
		}
		out[i] = data
	}
	return out
}

func TestOneEventIsItsOwnMessage(t *testing.T) {
	all := events(t, 1)
	if got := usagebundle.Join(all); !bytes.Equal(got, all[0]) {
		t.Errorf("message: got %x, want %x", got, all[0])
	}
	if got := usagebundle.Split(all[0]); !slices.EqualFunc(got, all, bytes.Equal) {
		t.Errorf("events: got %x, want %x", got, all)
	}
}

func TestABundleIsTheMessageOfTheContract(t *testing.T) {
	all := events(t, 3)
	want, err := proto.Marshal(&eventsv1.UsageBundle{Events: all})
	if err != nil {
		t.Fatal(err)
	}
	got := usagebundle.Join(all)
	if !bytes.Equal(got, want) {
		t.Errorf("message: got %x, want %x", got, want)
	}
	if back := usagebundle.Split(got); !slices.EqualFunc(back, all, bytes.Equal) {
		t.Errorf("events: got %x, want %x", back, all)
	}
}

// A reader of before the bundle takes one for an event without a request, which it sets
// aside and does not call settled.
func TestABundleNamesNoRequestToAnOldReader(t *testing.T) {
	e := &eventsv1.UsageEvent{}
	if err := proto.Unmarshal(usagebundle.Join(events(t, 2)), e); err != nil {
		t.Fatal(err)
	}
	if e.GetRequestId() != "" {
		t.Errorf("request: got %q, want none", e.GetRequestId())
	}
}

func TestWhatIsNoSoundBundleStaysWhole(t *testing.T) {
	sound := usagebundle.Join(events(t, 2))
	for name, message := range map[string][]byte{
		"empty":             {},
		"junk":              []byte("junk"),
		"cut":               sound[:len(sound)-1],
		"followed by junk":  append(bytes.Clone(sound), 1),
		"followed by event": append(bytes.Clone(sound), events(t, 1)[0]...),
		"too many":          usagebundle.Join(make([][]byte, 257)),
	} {
		if got := usagebundle.Split(message); !slices.EqualFunc(got, [][]byte{message}, bytes.Equal) {
			t.Errorf("%s: got %d events, want the message whole", name, len(got))
		}
	}
}

func TestABundleIsBoundedInEventsAndBytes(t *testing.T) {
	for _, c := range []struct {
		events, size, next int
		want               bool
	}{
		{0, 0, usagebundle.MaxBytes, true},
		{0, 0, usagebundle.MaxBytes + 1, false},
		{usagebundle.MaxEvents - 1, 0, 1, true},
		{usagebundle.MaxEvents, 0, 1, false},
		{1, usagebundle.MaxBytes - 9, 10, false},
	} {
		if got := usagebundle.Fits(c.events, c.size, c.next); got != c.want {
			t.Errorf("another %d bytes to %d events of %d bytes: got %t, want %t", c.next, c.events, c.size, got, c.want)
		}
	}
}

func FuzzSplitAgreesWithProtobuf(f *testing.F) {
	f.Add(usagebundle.Join(events(f, 3)))
	f.Add([]byte{0xfa, 0x01})
	f.Fuzz(func(t *testing.T, message []byte) {
		parts := usagebundle.Split(message)
		if len(parts) == 1 {
			return // the message, or a bundle of one, which Join does not make
		}
		b := &eventsv1.UsageBundle{}
		if err := proto.Unmarshal(message, b); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(parts, b.GetEvents(), bytes.Equal) {
			t.Fatalf("events: got %x, want %x", parts, b.GetEvents())
		}
		if got := usagebundle.Split(usagebundle.Join(parts)); !slices.EqualFunc(got, parts, bytes.Equal) {
			t.Fatalf("joined and split again: got %x, want %x", got, parts)
		}
	})
}
