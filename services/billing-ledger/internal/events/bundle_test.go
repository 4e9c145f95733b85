package events

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usagebundle"
	"svc.internal/services/billing-ledger/internal/usage"
)

// sizes is a database that notes how many requests each transaction has, and fails after
// some of them.
type sizes struct {
	usage.Store
	got  []int
	left int
}

func (s *sizes) Settle(
	_ context.Context, requests []ids.RequestID, _ []ids.ProviderID,
	_ func(usage.Snapshot) (usage.Effects, []usage.Reject),
) error {
	if s.left == 0 {
		return io.ErrUnexpectedEOF
	}
	s.left--
	s.got = append(s.got, len(requests))
	return nil
}

// bundleOf is a message of so many events that can be read.
func bundleOf(t *testing.T, n int) []byte {
	t.Helper()
	events := make([][]byte, n)
	for i := range events {
		id, err := ids.NewRequest(time.Unix(1_790_000_000, 0), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		e := usage.Event{Request: id, Attempt: 1, Hub: "hub-1", Model: "m", Provider: ids.ProviderID{1},
			Price: ids.PriceVersionID{1}, Ending: "completed", ClaimState: "absent", RouteMode: "auto",
			EvidenceSource: usage.Hub, DispatchedAt: time.Unix(1_790_000_000, 0), EndedAt: time.Unix(1_790_000_001, 0)}
		if events[i], err = proto.Marshal(usageToProto(e)); err != nil {
			t.Fatal(err)
		}
		if _, reject := decodeUsage(events[i]); reject != nil {
			t.Fatalf("the event is rejected: %s", reject.Detail)
		}
	}
	return usagebundle.Join(events)
}

func TestTransactionsAreBoundedInEventsAndNotInMessages(t *testing.T) {
	store := &sizes{left: 10}
	c := &Consumer{Settler: &usage.Settler{Store: store}, Batch: 50, Log: slog.New(slog.DiscardHandler)}
	msgs := []bus.Msg{{Data: bundleOf(t, 64)}, {Data: bundleOf(t, 1)}, {Data: bundleOf(t, 60)}}
	if err := c.handle(t.Context(), msgs); err != nil {
		t.Fatal(err)
	}
	if want := []int{50, 50, 25}; !slices.Equal(store.got, want) {
		t.Errorf("events of each transaction: got %v, want %v", store.got, want)
	}
	store.left = 1
	if err := c.handle(t.Context(), msgs); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("when the second transaction fails: got the error %v, want %v, so that all comes again", err,
			io.ErrUnexpectedEOF)
	}
}

func TestAMessageThatIsNoSoundBundleIsOneRejectedEvent(t *testing.T) {
	sound := bundleOf(t, 2)
	c := &Consumer{}
	for name, data := range map[string][]byte{
		"cut": sound[:len(sound)-1], "too many events": usagebundle.Join(make([][]byte, 1000)),
	} {
		s, err := c.sort(t.Context(), []bus.Msg{{Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.genuine) != 0 {
			t.Errorf("%s: events: got %d, want none", name, len(s.genuine))
		}
		if len(s.rejects) != 1 {
			t.Errorf("%s: rejects: got %d, want 1", name, len(s.rejects))
		}
		if len(s.poison) != 1 {
			t.Errorf("%s: messages of a reject alone: got %d, want 1", name, len(s.poison))
		}
	}
}
