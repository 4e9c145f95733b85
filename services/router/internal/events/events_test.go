package events

import (
	"testing"
	"time"
)

func TestHubsAreAskedUntilOneIsHeardAndThenOnlyAfterSilence(t *testing.T) {
	began := time.Unix(1_000, 0)
	var i inquiry
	i.begin(began)
	asks := 0
	never, now := time.UnixMilli(0), began
	for ; now.Before(began.Add(10 * time.Second)); now = now.Add(eagerLook) {
		if i.due(now, never) {
			asks++
		}
	}
	if asks != eagerTries {
		t.Errorf("asked: got %d times while nobody answered, want %d", asks, eagerTries)
	}
	i.begin(now)
	if !i.due(now, never) {
		t.Fatal("not asked at once after a connection")
	}
	heard := now.Add(eagerLook)
	for at := heard; at.Before(heard.Add(SilenceAfter)); at = at.Add(eagerLook) {
		if i.due(at, heard) {
			t.Fatalf("asked %v after a hub was heard", at.Sub(heard))
		}
	}
	if !i.due(heard.Add(SilenceAfter), heard) {
		t.Error("silence was not broken")
	}
}
