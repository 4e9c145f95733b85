package events

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usagebundle"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

func TestABatchIsPassedOnAsOneMessageOfEachHub(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	passed := make(chan string, 100)
	sub, err := conn.Subscribe(bus.SubjectClaims, "", func(_ context.Context, m bus.Message) {
		for range usagebundle.Split(m.Data) {
			passed <- m.Header.Get("Subject")
		}
		passed <- "end"
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Stop() }()
	var batch []bus.Msg
	for n := range byte(6) {
		hub := []string{"hub-1", "hub-2"}[n%2]
		data, err := proto.Marshal(usage(ids.RequestID{15: n + 1}, hub, eventsv1.ClaimState_CLAIM_STATE_VALID))
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, bus.Msg{Subject: bus.SubjectUsage(hub), Data: data})
	}
	u := NewUsage(conn, slog.New(slog.DiscardHandler), clock.System, nil)
	if err := u.handle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	one, two := bus.SubjectUsage("hub-1"), bus.SubjectUsage("hub-2")
	want := []string{one, one, one, "end", two, two, two, "end"}
	var got []string
	for range want {
		got = append(got, <-passed)
	}
	if !slices.Equal(got, want) {
		t.Errorf("passed on: got %v, want %v", got, want)
	}
}

func TestAPassageHasNoMoreThanABundleMayHave(t *testing.T) {
	var passages []passage
	for range usagebundle.MaxEvents + 1 {
		passages = passOn(passages, "usage.v1.hub-1", []byte("event"))
	}
	if got := len(passages); got != 2 {
		t.Errorf("passages of %d events: got %d, want 2", usagebundle.MaxEvents+1, got)
	}
}
