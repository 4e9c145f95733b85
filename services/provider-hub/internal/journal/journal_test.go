package journal_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

func TestReopenFindsUnsettledAndUnfinishedInOrder(t *testing.T) {
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	var want []journal.Key
	for n := range 300 { // more than two pages, over many segments
		serve(t, j, keyOf(n))
		want = append(want, keyOf(n))
	}
	must(t, j.Dispatch(keyOf(1000), dispatchPayload(keyOf(1000))))
	must(t, j.Commit(keyOf(1000)))
	must(t, j.Progress(keyOf(1000), journal.Progress{Tokens: 256, Bytes: 900}))
	must(t, j.Progress(keyOf(1000), journal.Progress{Tokens: 512, Bytes: 1800}))
	must(t, j.Dispatch(keyOf(1001), dispatchPayload(keyOf(1001))))
	must(t, j.Dispatch(keyOf(1002), dispatchPayload(keyOf(1002))))
	must(t, j.Void(keyOf(1002)))
	must(t, j.Settled(keyOf(7), keyOf(200)))
	want = slices.DeleteFunc(want, func(k journal.Key) bool { return k == keyOf(7) || k == keyOf(200) })
	must(t, j.Close())

	for round := range 3 { // replay is idempotent
		j, rec := open(t, config(disk))
		if rec.Torn != nil {
			t.Fatalf("round %d: what is torn of a sound journal: got %+v, want nil", round, rec.Torn)
		}
		if rec.DamageTotal != 0 {
			t.Fatalf("round %d: rec.DamageTotal: got %d, want 0", round, rec.DamageTotal)
		}
		if got := finals(t, rec.Finals()); !slices.Equal(got, want) {
			t.Fatalf("round %d: %d finals, in the order of %d: got %+v, want %+v", round, len(got), len(want), got, want)
		}
		got := dispatches(t, rec)
		switch {
		case len(got) != 2:
			t.Fatalf("round %d: unfinished: len(got): got %d, want 2, in %v", round, len(got), got)
		case rec.Unfinished != 2:
			t.Fatalf("round %d: rec.Unfinished: got %d, want 2", round, rec.Unfinished)
		case rec.Unsettled != len(want):
			t.Fatalf("round %d: rec.Unsettled: got %d, want %d", round, rec.Unsettled, len(want))
		}
		u := got[keyOf(1000)]
		if !u.Committed {
			t.Fatalf("round %d: u.Committed: got false, want true", round)
		}
		if u.Progress != (journal.Progress{Tokens: 512, Bytes: 1800}) {
			t.Fatalf("round %d: u.Progress: got %+v, want %+v", round, u.Progress, journal.Progress{Tokens: 512, Bytes: 1800})
		}
		if u := got[keyOf(1001)]; u.Committed {
			t.Fatalf("round %d: u.Committed: got true, want false", round)
		} else if u.Progress != (journal.Progress{}) {
			t.Fatalf("round %d: u.Progress: got %+v, want %+v", round, u.Progress, journal.Progress{})
		}
		must(t, j.Close())
	}
}

func TestUnfinishedCanBeClosedWhileIterating(t *testing.T) {
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	for n := range 300 {
		must(t, j.Dispatch(keyOf(n), dispatchPayload(keyOf(n))))
	}
	must(t, j.Close())
	j, rec := open(t, config(disk))
	n := 0
	for u, err := range rec.Dispatches() {
		must(t, err)
		if n%2 == 0 {
			must(t, j.Void(u.Key))
		} else {
			must(t, j.Final(t.Context(), u.Key, finalPayload(u.Key)))
		}
		n++
	}
	switch u := j.Usage(); {
	case n != 300:
		t.Fatalf("saw: got %d, want 300", n)
	case u.Open != 0:
		t.Fatalf("saw: u.Open: got %d, want 0", u.Open)
	case u.Unsettled != 150:
		t.Fatalf("saw: u.Unsettled: got %d, want 150", u.Unsettled)
	}
}

func TestUnsettledYieldsOnlyOlderFinals(t *testing.T) {
	clock := &ticker{}
	cfg := config(simdisk.New())
	cfg.Clock = clock
	j, _ := open(t, cfg)
	serve(t, j, keyOf(1))
	middle := clock.Now()
	serve(t, j, keyOf(2))
	if got := finals(t, j.Unsettled(middle)); !slices.Equal(got, []journal.Key{keyOf(1)}) {
		t.Fatalf("finals(t, j.Unsettled(middle)): got %+v, want %+v", got, []journal.Key{keyOf(1)})
	}
	if got := finals(t, j.Unsettled(farFuture)); len(got) != 2 {
		t.Fatalf("len(got): got %d, want 2, in %v", len(got), got)
	}
	must(t, j.Settled(keyOf(1)))
	if got := finals(t, j.Unsettled(farFuture)); !slices.Equal(got, []journal.Key{keyOf(2)}) {
		t.Fatalf("finals(t, j.Unsettled(farFuture)): got %+v, want %+v", got, []journal.Key{keyOf(2)})
	}
}

func TestCallsOutOfTurnAreRefused(t *testing.T) {
	j, _ := open(t, config(simdisk.New()))
	k := keyOf(1)
	for _, err := range []error{j.Commit(k), j.Progress(k, journal.Progress{Tokens: 1}), j.Final(t.Context(), k, nil)} {
		if !errors.Is(err, journal.ErrUnknown) {
			t.Errorf("before dispatch: got the error %v, want %v", err, journal.ErrUnknown)
		}
	}
	serve(t, j, k)
	if err := j.Dispatch(k, nil); !errors.Is(err, journal.ErrDuplicate) {
		t.Errorf("second dispatch: got the error %v, want %v", err, journal.ErrDuplicate)
	}
	if err := j.Void(k); !errors.Is(err, journal.ErrBillable) {
		t.Errorf("void of a final: got the error %v, want %v", err, journal.ErrBillable)
	}
	if err := j.Final(t.Context(), k, []byte("other")); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("another final: got the error %v, want %v", err, journal.ErrConflict)
	}
	must(t, j.Final(t.Context(), k, finalPayload(k)))
	must(t, j.Settled(k))
	if err := j.Final(t.Context(), k, finalPayload(k)); !errors.Is(err, journal.ErrUnknown) {
		t.Errorf("final after settled: got the error %v, want %v", err, journal.ErrUnknown)
	}
}

func TestRepeatedSettledIsHarmless(t *testing.T) {
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	serve(t, j, keyOf(1))
	serve(t, j, keyOf(2))
	for range 3 {
		must(t, j.Settled(keyOf(1), keyOf(1), keyOf(99)))
	}
	must(t, j.Close())
	_, rec := open(t, config(disk))
	if got := finals(t, rec.Finals()); !slices.Equal(got, []journal.Key{keyOf(2)}) {
		t.Fatalf("finals(t, rec.Finals()): got %+v, want %+v", got, []journal.Key{keyOf(2)})
	}
}

func TestPayloadsAreBounded(t *testing.T) {
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	largest := make([]byte, journal.MaxPayload)
	if err := j.Dispatch(keyOf(1), append(largest, 0)); !errors.Is(err, journal.ErrPayload) {
		t.Fatalf("dispatch: got the error %v, want %v", err, journal.ErrPayload)
	}
	must(t, j.Dispatch(keyOf(1), largest))
	if err := j.Final(t.Context(), keyOf(1), append(largest, 0)); !errors.Is(err, journal.ErrPayload) {
		t.Fatalf("got the error %v, want %v", err, journal.ErrPayload)
	}
	must(t, j.Final(t.Context(), keyOf(1), largest))
	must(t, j.Close())
	if _, rec := open(t, config(disk)); rec.Unsettled != 1 {
		t.Fatalf("rec.Unsettled: got %d, want 1", rec.Unsettled)
	} else if rec.DamageTotal != 0 {
		t.Fatalf("rec.DamageTotal: got %d, want 0", rec.DamageTotal)
	}
}

func TestAttemptsInMemoryAreBounded(t *testing.T) {
	cfg := config(simdisk.New())
	cfg.MaxKeys = 3
	j, _ := open(t, cfg)
	for n := range 3 {
		must(t, j.Dispatch(keyOf(n), nil))
	}
	if err := j.Dispatch(keyOf(3), nil); !errors.Is(err, journal.ErrFull) {
		t.Fatalf("got the error %v, want %v", err, journal.ErrFull)
	}
	must(t, j.Void(keyOf(0)))
	must(t, j.Dispatch(keyOf(3), nil))
}

func TestQueueIsBoundedWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, gate := gated(simdisk.OpSync)
		cfg := config(disk)
		cfg.MaxBatch = 2000
		j, _ := open(t, cfg)
		k := keyOf(0)
		must(t, j.Dispatch(k, nil))
		gate.shut()
		stuck := make(chan error)
		go func() { stuck <- j.Final(t.Context(), k, nil) }()
		synctest.Wait()
		var err error
		n := 1
		for ; err == nil && n < 1000; n++ {
			err = j.Dispatch(keyOf(n), nil)
		}
		if !errors.Is(err, journal.ErrBusy) {
			t.Fatalf("after %d dispatches: got the error %v, want %v", n, err, journal.ErrBusy)
		}
		before := j.Usage().Bytes
		must(t, j.Progress(keyOf(1), journal.Progress{Tokens: 1}))
		if after := j.Usage().Bytes; after != before {
			t.Fatalf("progress took %d bytes of a full queue: got %d, want %d", after-before, after, before)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.Final(ctx, keyOf(1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("final on a full queue: got the error %v, want %v", err, context.DeadlineExceeded)
		}
		late := make(chan error)
		go func() { late <- j.Final(t.Context(), keyOf(2), nil) }()
		synctest.Wait()
		gate.open()
		must(t, <-stuck)
		must(t, <-late)
		must(t, j.Close())
	})
}

func TestAbandonedFinalIsStillRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, gate := gated(simdisk.OpSync)
		j, _ := open(t, config(disk))
		k := keyOf(1)
		must(t, j.Dispatch(k, nil))
		gate.shut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.Final(ctx, k, finalPayload(k)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got the error %v, want %v", err, context.DeadlineExceeded)
		}
		gate.open()
		must(t, j.Final(t.Context(), k, finalPayload(k)))
		must(t, j.Close())
		if _, rec := open(t, config(disk)); rec.Unsettled != 1 {
			t.Fatalf("rec.Unsettled: got %d, want 1", rec.Unsettled)
		}
	})
}

func TestCloseSyncsWhatIsQueuedAndEndsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails when a goroutine stays behind
		disk := simdisk.New()
		j, _ := open(t, config(disk))
		must(t, j.Dispatch(keyOf(1), dispatchPayload(keyOf(1))))
		must(t, j.Close())
		must(t, j.Close())
		if err := j.Dispatch(keyOf(2), nil); !errors.Is(err, journal.ErrClosed) {
			t.Fatalf("got the error %v, want %v", err, journal.ErrClosed)
		}
		_, rec := open(t, config(disk.Crash(seeded(1))))
		if len(dispatches(t, rec)) != 1 {
			t.Fatal("dispatch is lost after Close")
		}
	})
}

func TestConfigNamesAllFaultsAtOnce(t *testing.T) {
	_, _, err := journal.Open(journal.Config{SegmentBytes: 1, MaxBytes: 2, MaxBatch: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	joined, ok := errors.Unwrap(err).(interface{ Unwrap() []error })
	if !ok {
		t.Fatal("ok: got false, want true")
	}
	if found := len(joined.Unwrap()); found != 5 {
		t.Fatalf("len(joined.Unwrap()): got %d, want 5", found)
	}
}
