package events

import (
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/clock"
)

func newTestKeyWait() (*keyWait, *clock.Manual) {
	now := clock.NewManual(time.Unix(1_790_000_000, 0))
	return newKeyWait(now), now
}

func TestWhatHasNoKeyIsLookedAtSoManyTimes(t *testing.T) {
	p, now := newTestKeyWait()
	for look := range maxLooks {
		if !p.wait("hub-1", 7) {
			t.Fatalf("got look %d refused, want %d", look+1, maxLooks)
		}
		now.Advance(keyPause)
	}
	if p.wait("hub-1", 7) {
		t.Error("got one more look, want none")
	} else if p.n != 0 {
		t.Errorf("got %d still waiting, want none", p.n)
	} else if len(p.hubs) != 0 {
		t.Errorf("got %d hubs still waited for, want none", len(p.hubs))
	}
	if maxLooks*keyPause < 90*time.Second {
		t.Errorf("got a wait of %v, want more than the minute in which keys are handed over again", maxLooks*keyPause)
	}
}

func TestAHubThatMakesUpKeysFillsItsOwnPlacesOnly(t *testing.T) {
	p, now := newTestKeyWait()
	for n := range uint64(10 * maxPerHub) {
		if got := p.wait("hub-1", n); got != (n < maxPerHub) {
			t.Fatalf("message %d: got it waiting %v, want the first %d", n, got, maxPerHub)
		}
	}
	if !p.wait("hub-2", 10_000) {
		t.Error("got another hub's message refused, want it to wait")
	}
	if !p.wait("hub-1", 3) {
		t.Error("got a message that waits refused, want it to wait on")
	}
	p.free("hub-1", 3)
	p.free("hub-1", 3)
	if !p.wait("hub-1", 20_000) {
		t.Error("got no place where a key came, want it given to another message")
	} else if p.wait("hub-1", 20_001) {
		t.Error("got a place for a second message, want none")
	}
	for n := range uint64(2 * maxWaiting) {
		p.wait(fmt.Sprint("hub-", n+10), n)
	}
	if p.n != maxWaiting {
		t.Errorf("got %d waiting, want %d", p.n, maxWaiting)
	}
	// Another replica was given them all.
	now.Advance(forgottenAfter + 1)
	if !p.wait("hub-3", 1) {
		t.Error("got no place for the one that is here, want it")
	} else if p.n != 1 {
		t.Errorf("got %d waiting, want the one that is here", p.n)
	}
}
