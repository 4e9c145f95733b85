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
		t.Errorf("writes before anybody stepped: got %d, want %d", n, written)
	}
	j.Step()
	if n := disk.Count(simdisk.OpWrite); n != written+1 {
		t.Errorf("%d writes and %d syncs by one step: disk.Count(simdisk.OpWrite): got %d, want %d", n-written,
			disk.Count(simdisk.OpSync)-synced, n, written+1)
	} else if disk.Count(simdisk.OpSync) != synced {
		t.Errorf("%d writes and %d syncs by one step: disk.Count(simdisk.OpSync): got %d, want %d", n-written,
			disk.Count(simdisk.OpSync)-synced, disk.Count(simdisk.OpSync), synced)
	}
	must(t, j.Final(t.Context(), keyOf(1), finalPayload(keyOf(1))))
	must(t, j.Dispatch(keyOf(2), dispatchPayload(keyOf(2))))
	_, rec := open(t, config(disk.Crash(seeded(1))))
	if rec.Unsettled != 1 {
		t.Errorf("a crash leaves: got %d, want 1", rec.Unsettled)
	} else if rec.Unfinished != 0 {
		t.Errorf("rec.Unfinished: got %d, want 0", rec.Unfinished)
	}
	must(t, j.Settled(keyOf(1)))
	must(t, j.Void(keyOf(2)))
	must(t, j.Close())
	_, rec = open(t, config(disk.Kill()))
	if rec.Unsettled != 0 {
		t.Errorf("Close leaves: got %d, want 0", rec.Unsettled)
	} else if rec.Unfinished != 0 {
		t.Errorf("rec.Unfinished: got %d, want 0", rec.Unfinished)
	}
}
