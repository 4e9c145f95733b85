package store_test

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/webhook"
)

// Hostile: more accounts than there are places have receivers that never answer.
func TestEndpointsThatFailedTakeTheirPlacesAndNoMore(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	const failing, room = 6, 3
	for range failing {
		c := h.consumer(t, 0)
		h.endpoint(t, c)
		h.happen(t, c, 2)
	}
	for _, turn := range h.turns(t) {
		h.end(t, turn, 500)
	}
	h.pass(t, 10*time.Minute)
	quick := h.consumer(t, 0)
	healthy := h.endpoint(t, quick)
	h.happen(t, quick, 1)
	for _, step := range []struct{ failing, want int }{{0, 1}, {room, room}} {
		turns, err := h.kept.TakeTurns(t.Context(), webhook.Room{All: 100, Failing: step.failing})
		if err != nil {
			t.Fatal(err)
		}
		if len(turns) != step.want {
			t.Errorf("turns with room for %d that failed: got %d, want %d", step.failing, len(turns), step.want)
		}
		for _, turn := range turns {
			if turn.Failing == (turn.Endpoint == healthy.ID) {
				t.Errorf("a turn of the endpoint that answers %t: failing: got %t", turn.Endpoint == healthy.ID, turn.Failing)
			}
		}
	}
}

func TestGoneEndsAnEndpointAndItsOwnerMayBeginAgain(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	id := h.endpoint(t, c).ID
	h.happen(t, c, 3)
	if got := h.end(t, h.turn(t), 410).Note; got != webhook.Gone {
		t.Errorf("note: got %q, want %q", got, webhook.Gone)
	}
	h.happen(t, c, 1)
	h.pass(t, 48*time.Hour)
	if n := len(h.turns(t)); n != 0 {
		t.Errorf("turns behind 410: got %d, want 0", n)
	}
	if _, err := h.owner.Test(t.Context(), c.account, id); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("a test: got %v, want the reason %s", err, fault.TransitionNotAllowed)
	}
	yes := true
	if _, err := h.owner.Change(t.Context(), c.account, id, webhook.Change{Enabled: &yes}); err != nil {
		t.Fatal(err)
	}
	if n := len(h.turns(t)); n != 0 {
		t.Errorf("old events of an endpoint that is enabled again: got %d, want 0", n)
	}
	h.happen(t, c, 1)
	if got := h.end(t, h.turn(t), 204).State; got != webhook.Delivered {
		t.Errorf("state of a new event: got %s, want %s", got, webhook.Delivered)
	}
}

func TestAnEndpointThatFailsForDaysEndsWithANote(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	h.endpoint(t, c)
	h.happen(t, c, 20)
	var last webhook.Next
	for range webhook.MinFailures {
		last = h.end(t, h.turn(t), 503)
		h.pass(t, 5*time.Minute)
	}
	if last.Note != webhook.Enabled {
		t.Errorf("note after %d failures in an hour: got %q, want none", webhook.MinFailures, last.Note)
	}
	h.pass(t, webhook.MaxFailing)
	if got := h.end(t, h.turn(t), 503).Note; got != webhook.Failing {
		t.Errorf("note after days: got %q, want %q", got, webhook.Failing)
	}
	if n := scan[int64](t, h.env, `SELECT count(*) FROM webhook_delivery WHERE state = 'waiting'`); n != 0 {
		t.Errorf("waiting: got %d, want 0", n)
	}
}

// A receiver that is down is not asked for each event that waits.
func TestAnEndpointThatFailsIsPausedLongerAndLonger(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	h.endpoint(t, c)
	h.happen(t, c, 10)
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		h.end(t, h.turn(t), 500)
		if n := len(h.turns(t)); n != 0 {
			t.Errorf("turns right after a failure: got %d, want 0", n)
		}
		h.pass(t, pause-time.Second)
		if n := len(h.turns(t)); n != 0 {
			t.Errorf("turns a second before %s: got %d, want 0", pause, n)
		}
		h.pass(t, 2*time.Second)
	}
	h.end(t, h.turn(t), 200)
	if n := len(h.turns(t)); n != 1 {
		t.Errorf("turns after a success: got %d, want 1 at once", n)
	}
}
