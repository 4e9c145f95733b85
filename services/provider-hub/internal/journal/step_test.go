package journal_test

import (
	"testing"

	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

// A stepped journal writes when it is told to, and when somebody waits.
func TestASteppedJournalWorksWhenItIsStepped(t *testing.T) {
	disk := simdisk.New()
	cfg := config(disk)
	cfg.Stepped = true
	j, _ := open(t, cfg)
	written, synced := disk.Count(simdisk.OpWrite), disk.Count(simdisk.OpSync)
	must(t, j.Dispatch(keyOf(1), dispatchPayload(keyOf(1))))
	must(t, j.Commit(keyOf(1)))
	if n := disk.Count(simdisk.OpWrite); n != written {
		t.Errorf("%d writes before anybody stepped", n-written)
	}
	j.Step()
	if n := disk.Count(simdisk.OpWrite); n != written+1 || disk.Count(simdisk.OpSync) != synced {
		t.Errorf("%d writes and %d syncs by one step, want one write", n-written, disk.Count(simdisk.OpSync)-synced)
	}
	must(t, j.Final(t.Context(), keyOf(1), finalPayload(keyOf(1))))
	must(t, j.Dispatch(keyOf(2), dispatchPayload(keyOf(2))))
	_, rec := open(t, config(disk.Crash(seeded(1))))
	if rec.Unsettled != 1 || rec.Unfinished != 0 {
		t.Errorf("a crash leaves %d finals and %d dispatches, want what was waited for", rec.Unsettled, rec.Unfinished)
	}
	must(t, j.Settled(keyOf(1)))
	must(t, j.Void(keyOf(2)))
	must(t, j.Close())
	_, rec = open(t, config(disk.Kill()))
	if rec.Unsettled != 0 || rec.Unfinished != 0 {
		t.Errorf("Close leaves %d finals and %d dispatches", rec.Unsettled, rec.Unfinished)
	}
}
