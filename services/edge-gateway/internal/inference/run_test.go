package inference

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// failedAttempt is a model attempt that has failed so that the next model may be tried, of two or of three.
func failedAttempt(ctx context.Context, models ...string) *modelAttempt {
	now := clock.NewManual(time.Unix(1_000_000, 0))
	req := &Request{
		ReceivedAt: now.Now(),
		Prompt: Prompt{
			ID: "first", Sent: openaiapi.Sent{Body: []byte(`{"model":"a"}`), Model: jsonscan.Span{Start: 9, End: 12}},
		},
	}
	for _, id := range models {
		req.Models = append(req.Models, Model{Model: &catalog.Model{ID: id}})
	}
	r := New(Deps{Clock: now, Random: rand.Reader}, Config{Total: time.Minute, MaxBody: 100})
	m := r.newModelAttempt(ctx, req, &req.Prompt, nil)
	m.result.Err = fault.New(fault.Unavailable, apierror.UpstreamError, "It failed.")
	return m
}

func TestTheNextModelIsTriedWhenItMayDoBetter(t *testing.T) {
	m := failedAttempt(t.Context(), "a", "b")
	now := m.runner.Clock.Now()
	next := m.successor()
	if next == nil {
		t.Fatal("no model is tried after one that failed")
	}
	switch {
	case next.at != 1:
		t.Errorf("model: got %d, want 1", next.at)
	case next.asks.ModelID != "b":
		t.Errorf(`next.asks.ModelID: got %q, want "b"`, next.asks.ModelID)
	case next.answer.Model != "b":
		t.Errorf(`next.answer.Model: got %q, want "b"`, next.answer.Model)
	}
	if got, want := string(next.sent.Body), `{"model":"b"}`; got != want {
		t.Errorf("got %s sent, want %s", got, want)
	}
	switch {
	case next.id == m.id:
		t.Errorf("the ids: got %q, want any but %q", next.id, m.id)
	case next.asks.ID != next.id:
		t.Errorf("next.asks.ID: got %q, want %q", next.asks.ID, next.id)
	case next.answer.RequestID != next.id:
		t.Errorf("next.answer.RequestID: got %q, want %q", next.answer.RequestID, next.id)
	}
	if next.asks.BodyBytes != int64(len(next.sent.Body)) {
		t.Errorf("admission hears: got %d bytes, want %d", next.asks.BodyBytes, len(next.sent.Body))
	}
	if !next.beganAt.Equal(now) {
		t.Errorf("its time to the first content counts: got %s, want %s", next.beganAt, now)
	}
	if next.successor() != nil {
		t.Error("a model is tried after the last")
	}
}

func TestNoFurtherModelIsTriedInVain(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, spoil := range map[string]func(*modelAttempt){
		"it has served":     func(m *modelAttempt) { m.result.Err = nil },
		"another error":     func(m *modelAttempt) { m.result.Err = fault.New(fault.Denied, fault.ModelNotAllowed, "no") },
		"no fault":          func(m *modelAttempt) { m.result.Err = errors.New("a programming error") },
		"committed":         func(m *modelAttempt) { m.result.Committed = 1 },
		"over":              func(m *modelAttempt) { m.over = true },
		"the client left":   func(m *modelAttempt) { m.client = gone },
		"a single attempt":  func(m *modelAttempt) { m.grant.SingleAttempt = true },
		"no time is left":   func(m *modelAttempt) { m.runner.cfg.Total = 0 },
		"too large a body":  func(m *modelAttempt) { m.runner.cfg.MaxBody = 5 },
		"no id can be made": func(m *modelAttempt) { m.runner.Random = io.LimitReader(rand.Reader, 0) },
	} {
		m := failedAttempt(t.Context(), "a", "b")
		spoil(m)
		if m.successor() != nil {
			t.Errorf("%s: a further model is tried", name)
		}
	}
}

func TestAModelWhoseNameMakesTheBodyTooLargeIsPassedOver(t *testing.T) {
	next := failedAttempt(t.Context(), "a", strings.Repeat("b", 100), "c").successor()
	if next == nil {
		t.Fatal("no model is tried after one that failed")
	}
	if next.at != 2 {
		t.Errorf("the index of the next model: got %d, want 2", next.at)
	}
}
