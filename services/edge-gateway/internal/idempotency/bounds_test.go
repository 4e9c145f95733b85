package idempotency

import (
	"strconv"
	"testing"
	"time"

	"svc.internal/pkg/fault"
)

func TestTheBodiesOfThoseThatWaitAreBounded(t *testing.T) {
	w := &keeper(&ledger{}).waiting // 1000 bytes, 250 of a key
	w.limit.requests, w.limit.uploads, w.maxPerKey.requests = 100, 100, 100
	ask := func(key string, bytes int64, upload bool) *Ask { return &Ask{KeyID: key, Holds: bytes, Upload: upload} }
	enter := func(a *Ask, want bool) {
		t.Helper()
		if w.enter(a) != want {
			t.Errorf("%s with %d bytes: %v", a.KeyID, a.Holds, !want)
		}
	}
	enter(ask("a", 251, false), false)
	enter(ask("a", 200, false), true)
	enter(ask("a", 51, false), false)
	enter(ask("a", 50, false), true)
	enter(ask("b", 1, true), true)
	enter(ask("b", 1, true), true)
	enter(ask("b", 1, true), false) // no third upload of a key
	enter(ask("b", 248, false), true)
	enter(ask("c", 250, false), true)
	enter(ask("d", 249, false), true)
	enter(ask("e", 2, false), false) // no room at all
	enter(ask("e", 1, false), true)
	w.leave(ask("b", 1, true))
	enter(ask("b", 1, true), true)
	for _, a := range []*Ask{
		ask("a", 200, false), ask("a", 50, false), ask("b", 1, true), ask("b", 1, true), ask("b", 248, false),
		ask("c", 250, false), ask("d", 249, false), ask("e", 1, false),
	} {
		w.leave(a)
	}
	if w.all != (share{}) {
		t.Errorf("w.all: got %+v, want %+v", w.all, share{})
	} else if len(w.ofKey) != 0 {
		t.Errorf("len(w.ofKey): got %d, want 0, in %v", len(w.ofKey), w.ofKey)
	}
}

func TestARateIsKeptOfEachKey(t *testing.T) {
	r, now := newRates(50, 100, 3), time.Now()
	for i := range 100 {
		if wait := r.take("a", now); wait != 0 {
			t.Fatalf("%d of the burst waits: got %v, want 0", i, wait)
		}
	}
	if wait := r.take("a", now); wait != 20*time.Millisecond {
		t.Errorf("one more waits: got %v, want %v", wait, 20*time.Millisecond)
	}
	if wait := r.take("b", now); wait != 0 {
		t.Errorf("another key waits: got %v, want 0", wait)
	}
	now = now.Add(time.Second)
	free := 0
	for r.take("a", now) == 0 {
		free++
	}
	if free != 50 {
		t.Errorf("free after a second: got %d, want 50", free)
	}
}

func TestRatesAreKeptOfSoManyKeys(t *testing.T) {
	r, now := newRates(1, 1, 3), time.Now()
	for i := range 100 {
		r.take(strconv.Itoa(i), now)
		if got, most := r.paid.Len(), 3; got > most {
			t.Fatalf("got %d keys, want at most %d", got, most)
		}
	}
	if r.take("99", now) == 0 {
		t.Error(`with the one heard of least recently forgotten: r.take("99", now): got 0, want any but 0`)
	} else if got := r.take("0", now); got != 0 {
		t.Errorf(`with the one heard of least recently forgotten: r.take("0", now): got %v, want 0`, got)
	}
}

func TestTheStoreIsNotAskedForWhatComesTooFast(t *testing.T) {
	l := &ledger{say: states(granted)}
	k := keeper(l)
	k.rates = newRates(1, 1, 1)
	for i := range 3 {
		_, _, err := k.Take(t.Context(), someAsk())
		switch f, _ := fault.As(err); {
		case (err == nil) != (i == 0):
			t.Errorf("take %d: err == nil: got %t, want %t", i, err == nil, i == 0)
		case err != nil && f.Kind != fault.Exhausted:
			t.Errorf("take %d: f.Kind: got %d, want %d", i, f.Kind, fault.Exhausted)
		case err != nil && f.Reason != fault.RateLimitExceeded:
			t.Errorf("take %d: f.Reason: got %q, want %q", i, f.Reason, fault.RateLimitExceeded)
		case err != nil && f.RetryAfter <= 0:
			t.Errorf("take %d: f.RetryAfter: got %v, want more than 0", i, f.RetryAfter)
		}
	}
	if len(l.asked) != 1 {
		t.Errorf("asked: got %d, want 1", len(l.asked))
	}
}
