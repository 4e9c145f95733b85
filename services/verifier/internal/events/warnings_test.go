package events

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/verifier/internal/probe"
)

func TestAnOfferIsWarnedOfOnceAnHour(t *testing.T) {
	t.Parallel()
	w, start := newWarnings(), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	one, other := probe.Offer{Provider: provider, Model: model}, probe.Offer{Provider: provider, Model: "acme/other"}
	for _, step := range []struct {
		what   string
		offer  probe.Offer
		after  time.Duration
		due    bool
		unsaid int64
	}{
		{"the first", one, 0, true, 0},
		{"the second", one, time.Second, false, 0},
		{"the third", one, time.Hour - time.Nanosecond, false, 0},
		{"the first of another", other, time.Second, true, 0},
		{"the first of the next hour", one, time.Hour, true, 2},
		{"the second of the next hour", one, time.Hour + time.Second, false, 0},
		{"the first of the third hour", one, 2 * time.Hour, true, 1},
	} {
		unsaid, due := w.due(step.offer, start.Add(step.after))
		if due != step.due {
			t.Errorf("%s is logged: got %v, want %v", step.what, due, step.due)
		}
		if unsaid != step.unsaid {
			t.Errorf("%s, not logged before: got %d, want %d", step.what, unsaid, step.unsaid)
		}
	}
}

func TestEachAbsurdClaimIsCountedAndOneAnHourLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	counted, hours := 0, clock.NewManual(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	u := NewUsage(bustest.New(t), slog.New(slog.NewTextHandler(&log, nil)), hours,
		func(context.Context, probe.Offer) { counted++ })
	for i := range byte(6) {
		if i == 4 {
			hours.Advance(time.Hour)
		}
		data, err := proto.Marshal(usage(ids.RequestID{15: i}, "hub-1", eventsv1.ClaimState_CLAIM_STATE_ABSURD))
		if err != nil {
			t.Fatal(err)
		}
		if err := u.handle(t.Context(), []bus.Msg{{Subject: bus.SubjectUsage("hub-1"), Data: data}}); err != nil {
			t.Fatal(err)
		}
	}
	if counted != 6 {
		t.Errorf("counted: got %d, want 6", counted)
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 2 {
		t.Errorf("lines of the log: got %d, want 2, in %s", got, log.String())
	}
	if want := "not_logged_before=3"; !strings.Contains(log.String(), want) {
		t.Errorf("the second line: got %q, want %q in it", log.String(), want)
	}
}

func TestTheOffersThatWereWarnedOfAreBounded(t *testing.T) {
	t.Parallel()
	w := newWarnings()
	for i := range maxWarned + 10 {
		w.due(probe.Offer{Provider: provider, Model: fmt.Sprint(i)}, time.Unix(int64(i), 0))
	}
	if got := w.said.Len(); got != maxWarned {
		t.Errorf("remembered: got %d, want %d", got, maxWarned)
	}
}
