package journal_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

func TestSettledSegmentsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := simdisk.New()
		j, _ := open(t, config(disk))
		for n := range 200 {
			serve(t, j, keyOf(n))
		}
		if got := len(segments(t, disk)); got < 20 {
			t.Fatalf("segments before any is settled: got %d, want at least 20", got)
		}
		for n := range 200 {
			must(t, j.Settled(keyOf(n)))
		}
		synctest.Wait()
		if got := segments(t, disk); len(got) != 1 {
			t.Fatalf("segments left: got %d, want 1", len(got))
		}
		switch u := j.Usage(); {
		case u.Segments != 1:
			t.Fatalf("u.Segments: got %d, want 1", u.Segments)
		case u.LiveBytes != 0:
			t.Fatalf("u.LiveBytes: got %d, want 0", u.LiveBytes)
		case u.Unsettled != 0:
			t.Fatalf("u.Unsettled: got %d, want 0", u.Unsettled)
		}
		must(t, j.Close())
	})
}

func TestStuckAttemptsAreCarriedForwardAndSurvive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := simdisk.New()
		j, _ := open(t, config(disk))
		stuckFinal, stuckOpen := keyOf(10_000), keyOf(10_001)
		serve(t, j, stuckFinal)
		must(t, j.Dispatch(stuckOpen, dispatchPayload(stuckOpen)))
		must(t, j.Commit(stuckOpen))
		must(t, j.Progress(stuckOpen, journal.Progress{Tokens: 77, Bytes: 88}))
		most := 0
		for n := range 2000 {
			serve(t, j, keyOf(n))
			must(t, j.Settled(keyOf(n)))
			most = max(most, j.Usage().Segments)
		}
		if most > 8 {
			t.Fatalf("two stuck attempts kept: got %d, want at most 8", most)
		}
		synctest.Wait()
		if slices.Contains(segments(t, disk), "0000000000000001.seg") {
			t.Fatal("the segment that held them is still there")
		}
		_, rec := open(t, config(disk.Crash(seeded(3))))
		if got := finals(t, rec.Finals()); !slices.Contains(got, stuckFinal) {
			t.Fatalf("the stuck final: got %+v, want %v in it", got, stuckFinal)
		}
		u, ok := dispatches(t, rec)[stuckOpen]
		switch {
		case !ok:
			t.Fatal("the stuck dispatch: dispatches(t, rec)[stuckOpen]: got none, want one")
		case !u.Committed:
			t.Fatal("u.Committed: got false, want true")
		case u.Progress != (journal.Progress{Tokens: 77, Bytes: 88}):
			t.Fatalf("u.Progress: got %+v, want %+v", u.Progress, journal.Progress{Tokens: 77, Bytes: 88})
		}
		must(t, j.Close())
	})
}

func TestCopyingEndsWhenNothingIsLeftToFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := simdisk.New()
		cfg := config(disk)
		cfg.MaxBytes = 20 << 10
		j, _ := open(t, cfg)
		// Open attempts whose notes outweigh their dispatch, up to the quota.
		for n := 0; ; n++ {
			err := j.Dispatch(keyOf(n), nil)
			if errors.Is(err, journal.ErrFull) {
				synctest.Wait() // copying makes room as long as there is any
				err = j.Dispatch(keyOf(n), nil)
			}
			if errors.Is(err, journal.ErrFull) {
				break
			}
			must(t, err)
			must(t, j.Commit(keyOf(n)))
			for i := range 3 {
				must(t, j.Progress(keyOf(n), journal.Progress{Tokens: uint64(i + 1)}))
			}
		}
		synctest.Wait() // returns only when the writer rests
		if u := j.Usage(); u.Bytes < u.LiveBytes {
			t.Fatalf("u.Bytes: got %d, want at least %d", u.Bytes, u.LiveBytes)
		}
		must(t, j.Close())
	})
}

func TestQuotaStopsDispatchOnlyAndSettlingReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(simdisk.New())
		cfg.MaxBytes = 16 << 10
		j, _ := open(t, cfg)
		late := keyOf(10_000)
		must(t, j.Dispatch(late, dispatchPayload(late)))
		n := 0
		for ; n < 10_000; n++ {
			if err := j.Dispatch(keyOf(n), dispatchPayload(keyOf(n))); err != nil {
				if !errors.Is(err, journal.ErrFull) {
					t.Fatalf("got the error %v, want %v", err, journal.ErrFull)
				}
				break
			}
			must(t, j.Final(t.Context(), keyOf(n), finalPayload(keyOf(n))))
		}
		if f := j.Usage().Fraction(); f < 0.8 || f > 0.85 {
			t.Fatalf("dispatch is refused: got %.2f, want 0.8 to 0.85", f)
		}
		must(t, j.Commit(late))
		must(t, j.Final(t.Context(), late, finalPayload(late)))
		for i := range n { // all but the late one, which a lone segment holds
			must(t, j.Settled(keyOf(i)))
		}
		synctest.Wait()
		if f := j.Usage().Fraction(); f >= 0.8 {
			t.Fatalf("still: got %.2f, want less than 0.8", f)
		}
		must(t, j.Dispatch(keyOf(20_000), nil))
		if got := finals(t, j.Unsettled(farFuture)); !slices.Equal(got, []journal.Key{late}) {
			t.Fatalf("finals(t, j.Unsettled(farFuture)): got %+v, want %+v", got, []journal.Key{late})
		}
		must(t, j.Close())
	})
}

func TestIterationKeepsPaceWithCarryingAndSettling(t *testing.T) {
	j, _ := open(t, config(simdisk.New()))
	const stuck = 400
	for n := range stuck {
		serve(t, j, keyOf(n))
	}
	seen := 0
	next := 10_000
	for f, err := range j.Unsettled(farFuture) {
		must(t, err)
		if string(f.Payload) != string(finalPayload(f.Key)) {
			t.Fatalf("%v came with %q", f.Key, f.Payload)
		}
		seen++
		// Make the journal copy and delete segments under the iterator.
		for range 10 {
			serve(t, j, keyOf(next))
			must(t, j.Settled(keyOf(next)))
			next++
		}
		if seen%2 == 0 {
			must(t, j.Settled(f.Key))
		}
	}
	if seen != stuck {
		t.Fatalf("saw: got %d, want %d", seen, stuck)
	}
	if got := len(finals(t, j.Unsettled(farFuture))); got != stuck/2 {
		t.Fatalf("got %d left, want %d", got, stuck/2)
	}
}
