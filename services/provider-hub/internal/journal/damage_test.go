package journal_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

// written returns a disk with one segment that holds some records, and its name.
func written(t *testing.T) (*simdisk.Disk, string) {
	t.Helper()
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	for n := range 3 {
		serve(t, j, keyOf(n))
	}
	must(t, j.Dispatch(keyOf(9), dispatchPayload(keyOf(9))))
	must(t, j.Commit(keyOf(9)))
	must(t, j.Progress(keyOf(9), journal.Progress{Tokens: 3, Bytes: 4}))
	must(t, j.Close())
	names := segments(t, disk)
	if len(names) != 1 {
		t.Fatalf("want one segment, have %v", names)
	}
	return disk, names[0]
}

// checkRecords fails when anything comes back that was never recorded; finals
// and dispatches check payloads.
func checkRecords(t *testing.T, rec *journal.Recovery) {
	t.Helper()
	for _, k := range finals(t, rec.Finals()) {
		if k != keyOf(0) && k != keyOf(1) && k != keyOf(2) {
			t.Fatalf("%v was never final", k)
		}
	}
	for k, u := range dispatches(t, rec) {
		if p := u.Progress; p != (journal.Progress{}) && k != keyOf(9) {
			t.Fatalf("%v came back with progress %v: k: got %v, want %v, where p != (journal.Progress{})", k, p, k, keyOf(9))
		} else if (p != (journal.Progress{}) && p != journal.Progress{Tokens: 3, Bytes: 4}) {
			t.Fatalf("%v came back with progress %v: u.Progress: got %+v, want %+v or %+v", k, p, p, journal.Progress{},
				journal.Progress{Tokens: 3, Bytes: 4})
		}
		if u.Committed && k != keyOf(9) {
			t.Fatalf("%v was never committed", k)
		}
	}
}

func TestTornTailIsCutAndNamed(t *testing.T) {
	disk, name := written(t)
	whole := disk.Content(name)
	for length := range len(whole) {
		torn := simdisk.New()
		torn.Replace(name, whole[:length])
		j, rec := open(t, config(torn))
		checkRecords(t, rec)
		if rec.DamageTotal != 0 {
			t.Fatalf("cut at %d: damages reported: got %d, want 0", length, rec.DamageTotal)
		}
		if rec.Torn != nil && rec.Torn.To != int64(length) {
			t.Fatalf("cut at %d: reported: rec.Torn.To: got %d, want %d", length, rec.Torn.To, int64(length))
		}
		if rec.Torn != nil && rec.Torn.Segment != 1 {
			t.Fatalf("cut at %d: reported: rec.Torn.Segment: got %d, want 1", length, rec.Torn.Segment)
		}
		serve(t, j, keyOf(50))
		must(t, j.Close())
		_, again := open(t, config(torn))
		switch {
		case again.Torn != nil:
			t.Fatalf("cut at %d: second open found: again.Torn: got %+v, want nil", length, again.Torn)
		case again.DamageTotal != 0:
			t.Fatalf("cut at %d: second open found: again.DamageTotal: got %d, want 0", length, again.DamageTotal)
		case again.Unsettled != rec.Unsettled+1:
			t.Fatalf("cut at %d: second open found: again.Unsettled: got %d, want %d", length, again.Unsettled, rec.Unsettled+1)
		}
	}
}

func TestBitFlipNeverYieldsAWrongRecordNorGoesUnseen(t *testing.T) {
	disk, name := written(t)
	whole, sealed := disk.Content(name), sealedContent(t, disk, name)
	for at := range whole {
		for bit := range 8 {
			for _, newest := range []bool{true, false} {
				flipped := bytes.Clone(whole)
				if !newest {
					flipped = bytes.Clone(sealed)
				}
				if at >= len(flipped) {
					continue
				}
				flipped[at] ^= 1 << bit
				d := simdisk.New()
				d.Replace(name, flipped)
				if !newest {
					addSegment(t, d, disk)
				}
				j, rec, err := journal.Open(config(d))
				if err != nil {
					t.Fatalf("flip %d.%d: %v", at, bit, err)
				}
				checkRecords(t, rec)
				if rec.DamageTotal == 0 && rec.Torn == nil {
					t.Fatalf("flip %d.%d went unseen", at, bit)
				}
				switch {
				case !newest && rec.Torn != nil:
					t.Fatalf("flip %d.%d reported: rec.Torn: got %+v, want nil, where !newest", at, bit, rec.Torn)
				case !newest && rec.Damage[0].Segment != 1:
					t.Fatalf("flip %d.%d reported: rec.Damage[0].Segment: got %d, want 1, where !newest", at, bit,
						rec.Damage[0].Segment)
				case !newest && rec.Damage[0].From > int64(at):
					t.Fatalf("flip %d.%d reported: rec.Damage[0].From: got %d, want at most %d, where !newest", at, bit,
						rec.Damage[0].From, int64(at))
				case !newest && rec.Damage[0].To <= int64(at):
					t.Fatalf("flip %d.%d reported: rec.Damage[0].To: got %d, want more than %d, where !newest", at, bit,
						rec.Damage[0].To, int64(at))
				}
				if rec.Unsettled < 2 {
					t.Fatalf("flip %d.%d, finals it did not touch: got %d, want at least 2", at, bit, rec.Unsettled)
				}
				must(t, j.Close())
			}
		}
	}
}

// sealedContent returns a segment as it is once the next one is begun, without the zeros
// behind its records.
func sealedContent(t *testing.T, disk *simdisk.Disk, name string) []byte {
	t.Helper()
	reopened := disk.Kill()
	j, _ := open(t, config(reopened))
	must(t, j.Close())
	return reopened.Content(name)
}

// addSegment gives d a sound second segment, made by reopening a copy.
func addSegment(t *testing.T, d, sound *simdisk.Disk) {
	t.Helper()
	second := sound.Kill()
	j, _ := open(t, config(second))
	must(t, j.Close())
	for _, name := range segments(t, second)[1:] {
		d.Replace(name, second.Content(name))
	}
}

func TestMissingSegmentIsReported(t *testing.T) {
	disk := simdisk.New()
	j, _ := open(t, config(disk))
	for n := range 40 {
		serve(t, j, keyOf(n))
	}
	must(t, j.Close())
	must(t, disk.Remove(segments(t, disk)[1]))
	_, rec := open(t, config(disk))
	switch {
	case rec.DamageTotal != 1:
		t.Fatalf("rec.DamageTotal: got %d, want 1", rec.DamageTotal)
	case !rec.Damage[0].Missing:
		t.Fatal("rec.Damage[0].Missing: got false, want true")
	case rec.Damage[0].Segment != 2:
		t.Fatalf("rec.Damage[0].Segment: got %d, want 2", rec.Damage[0].Segment)
	}
}

func TestNewerFormatIsRefusedUntouched(t *testing.T) {
	disk := simdisk.New()
	name := "0000000000000001.seg"
	// A header of version 2 with a sound checksum.
	header := []byte("HUBJRNL\n\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00")
	header = append(header, castagnoli(header)...)
	disk.Replace(name, header)
	if _, _, err := journal.Open(config(disk)); err == nil {
		t.Fatal("opened")
	}
	if !bytes.Equal(disk.Content(name), header) {
		t.Fatal("file was changed")
	}
}

func TestUnreadablePayloadComesAsAnErrorBesideItsKey(t *testing.T) {
	disk, name := written(t)
	j, rec := open(t, config(disk))
	content := disk.Content(name)
	at := bytes.Index(content, finalPayload(keyOf(1)))
	content[at] ^= 1
	disk.Replace(name, content)
	bad := 0
	for f, err := range rec.Finals() {
		if err == nil {
			continue
		}
		bad++
		if f.Key != keyOf(1) {
			t.Fatalf("with %v: f.Key: got %v, want %v", err, f.Key, keyOf(1))
		}
		if f.Payload != nil {
			t.Fatalf("with %v: f.Payload: got %q, want nil", err, f.Payload)
		}
	}
	if bad != 1 {
		t.Fatalf("bad: got %d, want 1", bad)
	}
	if j.Err() != nil {
		t.Fatalf("j.Err(): got the error %v, want none", j.Err())
	}
}

func castagnoli(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
