package journal_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

// The size of a file changes once for some hundred records, not with each of them.
func TestRecordsAreWrittenOverZerosAndChangeNoLength(t *testing.T) {
	disk := simdisk.New()
	cfg := config(disk)
	cfg.SegmentBytes, cfg.MaxBytes = 1<<20, 8<<20
	j, _ := open(t, cfg)
	name := segments(t, disk)[0]
	lengths := map[int]bool{}
	const served = 400
	payload := make([]byte, 1<<10)
	for n := range served {
		must(t, j.Dispatch(keyOf(n), nil))
		must(t, j.Final(t.Context(), keyOf(n), payload))
		lengths[len(disk.Content(name))] = true
	}
	if used := j.Usage().Bytes; used < 300<<10 {
		t.Fatalf("bytes of records: got %d, want at least %d, so that zeros are written twice", used, 300<<10)
	}
	if len(lengths) > 2 {
		t.Errorf("lengths of the file over %d finals: got %d, want at most 2", served, len(lengths))
	}
}

func TestZerosBehindTheLastRecordAreTheEnd(t *testing.T) {
	disk, name := written(t)
	whole := disk.Content(name)
	if whole[len(whole)-1] != 0 {
		t.Fatal("the segment does not end with zeros")
	}
	_, rec := open(t, config(disk))
	if rec.Torn != nil {
		t.Errorf("torn: got %+v, want nil", rec.Torn)
	}
	if rec.DamageTotal != 0 {
		t.Errorf("damage: got %d, want 0", rec.DamageTotal)
	}
	if rec.Unsettled != 3 {
		t.Errorf("finals: got %d, want 3", rec.Unsettled)
	}
	got := disk.Content(name)
	if len(got) >= len(whole) {
		t.Errorf("length of the reopened segment: got %d, want less than %d", len(got), len(whole))
	}
	if !bytes.HasPrefix(whole, got) {
		t.Errorf("the reopened segment: got %x, want the beginning of %x", got, whole)
	}
}

func TestRecordTornOverZerosIsCutAndNamed(t *testing.T) {
	disk, name := written(t)
	whole, records := disk.Content(name), sealedContent(t, disk, name)
	const header = 24 // a segment without a whole header is removed, and begun anew
	unnamed := 0
	for length := header; length < len(records); length++ {
		torn := simdisk.New()
		content := bytes.Clone(whole)
		clear(content[length:])
		torn.Replace(name, content)
		j, rec := open(t, config(torn))
		checkRecords(t, rec)
		if rec.DamageTotal != 0 {
			t.Fatalf("torn at %d: damages: got %d, want 0", length, rec.DamageTotal)
		}
		if rec.Torn == nil {
			unnamed++
		}
		if rec.Torn != nil && rec.Torn.From > int64(length) {
			t.Fatalf("torn at %d: rec.Torn.From: got %d, want at most %d", length, rec.Torn.From, length)
		}
		serve(t, j, keyOf(50))
		must(t, j.Close())
		_, again := open(t, config(torn))
		if again.Torn != nil {
			t.Fatalf("torn at %d: torn when opened again: got %+v, want nil", length, again.Torn)
		}
		if again.Unsettled != rec.Unsettled+1 {
			t.Fatalf("torn at %d: finals when opened again: got %d, want %d", length, again.Unsettled, rec.Unsettled+1)
		}
	}
	// Between two records, and within the zeros that one may begin with.
	if unnamed > 20 {
		t.Errorf("torn ends that were not named: got %d of %d, want at most 20", unnamed, len(records)-header)
	}
}

// A file system may show blocks of a deleted segment behind the end, in their old places.
func TestRecordsOfAnotherSegmentBehindTheEndAreNotRead(t *testing.T) {
	old := simdisk.New()
	j, _ := open(t, config(old))
	for n := range 9 {
		serve(t, j, keyOf(100+n))
	}
	must(t, j.Close())
	stale := old.Content(segments(t, old)[0])

	first := simdisk.New()
	j, _ = open(t, config(first))
	must(t, j.Close())
	disk := first.Kill()
	j, _ = open(t, config(disk)) // begins segment 2
	serve(t, j, keyOf(1))
	must(t, j.Close())
	name := segments(t, disk)[len(segments(t, disk))-1]
	content := disk.Content(name)
	end := len(sealedContent(t, disk, name))
	if end >= len(stale) {
		t.Fatalf("the stale records end at %d, want them to end behind %d", len(stale), end)
	}
	copy(content[end:], stale[end:])
	disk.Replace(name, content)

	_, rec := open(t, config(disk))
	if got := finals(t, rec.Finals()); !slices.Equal(got, []journal.Key{keyOf(1)}) {
		t.Errorf("finals: got %v, want %v alone", got, keyOf(1))
	}
	if rec.Torn == nil {
		t.Error("torn: got nil, want the stale bytes")
	}
	if rec.DamageTotal != 0 {
		t.Errorf("damage: got %d, want 0", rec.DamageTotal)
	}
}

func TestDiskThatIsFullForZerosStillTakesRecords(t *testing.T) {
	disk := simdisk.New()
	var last simdisk.Op
	refused := 0
	disk.Hook = func(op simdisk.Op, _ string) error {
		zeros := op == simdisk.OpWrite && last == simdisk.OpWrite // records come first
		last = op
		if !zeros {
			return nil
		}
		refused++
		return syscall.ENOSPC
	}
	cfg := config(disk)
	cfg.Stepped = true
	j, _ := open(t, cfg)
	const served = 40
	for n := range served {
		serve(t, j, keyOf(n))
	}
	if refused == 0 {
		t.Fatal("no zeros were refused")
	}
	if j.Err() != nil {
		t.Fatalf("j.Err(): got the error %v, want none", j.Err())
	}
	disk.Hook = nil
	_, rec := open(t, config(disk.Crash(seeded(1))))
	if got := len(finals(t, rec.Finals())); got != served {
		t.Errorf("finals: got %d, want %d", got, served)
	}
}

// Every operation of a history with segments that are begun, sealed and deleted is once
// the last one.
func TestNothingAcknowledgedIsLostWhateverOperationIsTheLast(t *testing.T) {
	total := stepsUntil(t, -1, func(*simdisk.Disk, int, int) {})
	if total < 100 {
		t.Fatalf("operations: got %d, want at least 100", total)
	}
	for last := range total {
		stepsUntil(t, last, func(disk *simdisk.Disk, acked, settled int) {
			disks := map[string]*simdisk.Disk{"kill": disk.Kill()}
			for seed := range uint64(4) {
				disks[fmt.Sprint("crash ", seed)] = disk.Crash(seeded(seed))
			}
			for how, after := range disks {
				j, rec := open(t, config(after))
				found := map[journal.Key]bool{}
				for _, k := range finals(t, rec.Finals()) {
					found[k] = true
				}
				for n := settled; n < acked; n++ {
					if !found[keyOf(n)] {
						t.Fatalf("%s before operation %d: final %d of %d is lost", how, last, n, acked)
					}
				}
				if strings.HasPrefix(how, "kill") && rec.DamageTotal > 0 {
					t.Fatalf("%s before operation %d: damage: got %d, want 0", how, last, rec.DamageTotal)
				}
				must(t, j.Close())
			}
		})
	}
}

// stepsUntil serves and settles attempts, and calls look in front of one operation of the
// disk, with how many finals are acknowledged and of how many the settlement was begun.
// It returns the number of all operations.
func stepsUntil(t *testing.T, one int, look func(disk *simdisk.Disk, acked, settled int)) (operations int) {
	t.Helper()
	disk := simdisk.New()
	acked, settled := 0, 0
	disk.Hook = func(simdisk.Op, string) error {
		if operations == one {
			look(disk, acked, settled)
		}
		operations++
		return nil
	}
	cfg := config(disk)
	cfg.Stepped = true
	j, _ := open(t, cfg)
	for n := range 30 {
		serve(t, j, keyOf(n))
		acked++
		if n >= 10 {
			settled++
			must(t, j.Settled(keyOf(n-10)))
			j.Step()
		}
	}
	must(t, j.Close())
	return operations
}
