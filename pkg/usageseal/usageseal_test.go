package usageseal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// memory is a store.
type memory struct {
	keys  map[string]Key
	away  error
	asked int
}

func (m *memory) KeepUsageKey(_ context.Context, hub string, k Key) error {
	if known, ok := m.keys[hub+string(k.ID[:])]; ok && known != k {
		return ErrOtherKey
	}
	if m.away == nil {
		m.keys[hub+string(k.ID[:])] = k
	}
	return m.away
}

func (m *memory) UsageKey(_ context.Context, hub string, id KeyID) (Key, bool, error) {
	m.asked++
	k, ok := m.keys[hub+string(id[:])]
	return k, ok, m.away
}

func newKey(t testing.TB) Key {
	t.Helper()
	k, err := NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func event(t testing.TB) []byte {
	t.Helper()
	data, err := proto.Marshal(&eventsv1.UsageEvent{
		RequestId: "0192f0c0-0000-7000-8000-000000000003", Attempt: 1, HubId: "hub-1",
		ProviderId: "0192f0c0-0000-7000-8000-000000000001",
		ModelId:    "acme/large", PriceVersionId: "0192f0c0-0000-7000-8000-000000000002", BillableCompletionTokens: 400,
		LedgerMac: make([]byte, 16),
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestASealedEventIsTheEventWithASeal(t *testing.T) {
	key, data := newKey(t), event(t)
	sealed := key.Seal(data)
	if len(sealed) != len(data)+Size || !bytes.HasPrefix(sealed, data) {
		t.Errorf("got %d bytes, want the %d of the event and %d more", len(sealed), len(data), Size)
	}
	e := &eventsv1.UsageEvent{}
	switch err := proto.Unmarshal(sealed, e); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(e.GetSeal()) != Size-3:
		t.Errorf("bytes of the seal: got %d, want %d", len(e.GetSeal()), Size-3)
	case len(e.ProtoReflect().GetUnknown()) != 0:
		t.Errorf("len(e.ProtoReflect().GetUnknown()): got %d, want 0", len(e.ProtoReflect().GetUnknown()))
	}
}

func TestNoByteOfASealedEventCanChange(t *testing.T) {
	key := newKey(t)
	sealed := key.Seal(event(t))
	if !key.Opens(sealed) {
		t.Fatal("the seal does not open")
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if key.Opens(changed) {
			t.Errorf("got byte %d changed and the seal valid, want it forged", i)
		}
	}
	for _, data := range [][]byte{nil, sealed[:Size-1], sealed[1:], append(bytes.Clone(sealed), 0), event(t)} {
		if key.Opens(data) {
			t.Errorf("got %d bytes with a valid seal, want them forged", len(data))
		}
	}
}

func TestAKeyIsGoodForItsHubOnly(t *testing.T) {
	ctx, store := t.Context(), &memory{keys: map[string]Key{}}
	ring, key := NewRing(store, clock.System), newKey(t)
	sealed := key.Seal(event(t))
	check := func(hub string, data []byte, want Verdict) {
		t.Helper()
		if got, err := ring.Check(ctx, hub, data); got != want || err != nil {
			t.Errorf("%s: got verdict %d, %v, want %d", hub, got, err, want)
		}
	}
	check("hub-1", sealed, Early)
	if err := ring.Take(ctx, "hub-1", key); err != nil {
		t.Fatal(err)
	}
	check("hub-1", sealed, Valid)
	check("hub-2", sealed, Early)
	check("hub-1", event(t), Forged)
	other := newKey(t)
	other.ID = key.ID
	check("hub-1", other.Seal(event(t)), Forged)
	if err := ring.Take(ctx, "hub-1", other); !errors.Is(err, ErrOtherKey) {
		t.Errorf("another key under the same id: got %v, want ErrOtherKey", err)
	}
	check("hub-1", sealed, Valid)

	// Another replica, or the same after a restart, finds the key in the store.
	ring = NewRing(store, clock.System)
	check("hub-1", sealed, Valid)
	asked := store.asked
	check("hub-1", sealed, Valid)
	if store.asked != asked {
		t.Errorf("look-ups of a key that is known: got %d, want %d", store.asked, asked)
	}
	store.away = errors.New("away")
	if got, err := NewRing(store, clock.System).Check(ctx, "hub-1", sealed); err == nil {
		t.Errorf("without its store: got verdict %d, want an error", got)
	}
}

func FuzzASealIsNeverGuessed(f *testing.F) {
	key := newKey(f)
	sealed := key.Seal(event(f))
	f.Add(sealed)
	f.Add(sealed[:len(sealed)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		if key.Opens(data) && !bytes.Equal(key.Seal(data[:len(data)-Size]), data) {
			t.Errorf("got %x opened, want only what the key has sealed", data)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	key, data := newKey(b), event(b)
	b.ReportAllocs()
	for b.Loop() {
		key.Seal(data)
	}
}

func BenchmarkCheck(b *testing.B) {
	key := newKey(b)
	ring := NewRing(&memory{keys: map[string]Key{}}, clock.System)
	if err := ring.Take(b.Context(), "hub-1", key); err != nil {
		b.Fatal(err)
	}
	sealed := key.Seal(event(b))
	b.ReportAllocs()
	for b.Loop() {
		if v, err := ring.Check(b.Context(), "hub-1", sealed); v != Valid {
			b.Fatalf("ring.Check(…): got %d, want %d", v, Valid)
		} else if err != nil {
			b.Fatalf("got the error %v, want none", err)
		}
	}
}
