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
		if rec.Torn != nil || rec.DamageTotal != 0 {
			t.Fatalf("round %d: sound journal reported as torn %v, damage %v", round, rec.Torn, rec.Damage)
		}
		if got := finals(t, rec.Finals()); !slices.Equal(got, want) {
			t.Fatalf("round %d: got %d finals in another order or number than %d", round, len(got), len(want))
		}
		got := dispatches(t, rec)
		if len(got) != 2 || rec.Unfinished != 2 || rec.Unsettled != len(want) {
			t.Fatalf("round %d: got unfinished %v, %+v", round, got, rec)
		}
		u := got[keyOf(1000)]
		if !u.Committed || u.Progress != (journal.Progress{Tokens: 512, Bytes: 1800}) {
			t.Fatalf("round %d: got %+v", round, u)
		}
		if u := got[keyOf(1001)]; u.Committed || u.Progress != (journal.Progress{}) {
			t.Fatalf("round %d: got %+v", round, u)
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
	if u := j.Usage(); n != 300 || u.Open != 0 || u.Unsettled != 150 {
		t.Fatalf("saw %d of 300, then %+v", n, u)
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
		t.Fatalf("got %v", got)
	}
	if got := finals(t, j.Unsettled(farFuture)); len(got) != 2 {
		t.Fatalf("got %v", got)
	}
	must(t, j.Settled(keyOf(1)))
	if got := finals(t, j.Unsettled(farFuture)); !slices.Equal(got, []journal.Key{keyOf(2)}) {
		t.Fatalf("got %v", got)
	}
}

func TestCallsOutOfTurnAreRefused(t *testing.T) {
	j, _ := open(t, config(simdisk.New()))
	k := keyOf(1)
	for _, err := range []error{j.Commit(k), j.Progress(k, journal.Progress{Tokens: 1}), j.Final(t.Context(), k, nil)} {
		if !errors.Is(err, journal.ErrUnknown) {
			t.Errorf("before dispatch: got %v", err)
		}
	}
	serve(t, j, k)
	if err := j.Dispatch(k, nil); !errors.Is(err, journal.ErrDuplicate) {
		t.Errorf("second dispatch: got %v", err)
	}
	if err := j.Void(k); !errors.Is(err, journal.ErrBillable) {
		t.Errorf("void of a final: got %v", err)
	}
	if err := j.Final(t.Context(), k, []byte("other")); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("another final: got %v", err)
	}
	must(t, j.Final(t.Context(), k, finalPayload(k)))
	must(t, j.Settled(k))
	if err := j.Final(t.Context(), k, finalPayload(k)); !errors.Is(err, journal.ErrUnknown) {
		t.Errorf("final after settled: got %v", err)
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
		t.Fatalf("got %v", got)
	}
}

func TestPayloadsAreBounded(t *testing.T) {
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	largest := make([]byte, journal.MaxPayload)
	if err := j.Dispatch(keyOf(1), append(largest, 0)); !errors.Is(err, journal.ErrPayload) {
		t.Fatalf("dispatch: got %v", err)
	}
	must(t, j.Dispatch(keyOf(1), largest))
	if err := j.Final(t.Context(), keyOf(1), append(largest, 0)); !errors.Is(err, journal.ErrPayload) {
		t.Fatalf("final: got %v", err)
	}
	must(t, j.Final(t.Context(), keyOf(1), largest))
	must(t, j.Close())
	if _, rec := open(t, config(disk)); rec.Unsettled != 1 || rec.DamageTotal != 0 {
		t.Fatalf("got %+v", rec)
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
		t.Fatalf("got %v", err)
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
			t.Fatalf("after %d dispatches got %v", n, err)
		}
		before := j.Usage().Bytes
		must(t, j.Progress(keyOf(1), journal.Progress{Tokens: 1}))
		if after := j.Usage().Bytes; after != before {
			t.Fatalf("progress took %d bytes of a full queue", after-before)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.Final(ctx, keyOf(1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("final on a full queue: got %v", err)
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
			t.Fatalf("got %v", err)
		}
		gate.open()
		must(t, j.Final(t.Context(), k, finalPayload(k)))
		must(t, j.Close())
		if _, rec := open(t, config(disk)); rec.Unsettled != 1 {
			t.Fatalf("got %+v", rec)
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
			t.Fatalf("got %v", err)
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
	if !ok || len(joined.Unwrap()) != 5 {
		t.Fatalf("got %v", err)
	}
}
