package journal_test

import (
	"encoding/binary"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/services/provider-hub/internal/journal"
	"svc.internal/services/provider-hub/internal/journal/simdisk"
)

// ticker is a clock that moves one second with each look.
type ticker struct{ seconds atomic.Int64 }

func (c *ticker) Now() time.Time { return time.Unix(1_000_000+c.seconds.Add(1), 0) }

var farFuture = time.Unix(1<<40, 0)

func config(disk journal.Disk) journal.Config {
	return journal.Config{Disk: disk, Clock: &ticker{}, SegmentBytes: 1 << 10, MaxBytes: 1 << 20}
}

func open(t testing.TB, cfg journal.Config) (*journal.Journal, *journal.Recovery) {
	t.Helper()
	j, rec, err := journal.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() }) // tests of failure leave it poisoned
	return j, rec
}

func keyOf(n int) journal.Key {
	var k journal.Key
	binary.BigEndian.PutUint64(k.Request[8:], uint64(n))
	k.Attempt = uint32(n % 3)
	return k
}

func dispatchPayload(k journal.Key) []byte { return fmt.Appendf(nil, "dispatch of %v", k) }

func finalPayload(k journal.Key) []byte { return fmt.Appendf(nil, "usage of %v", k) }

// serve dispatches and finishes an attempt.
func serve(t testing.TB, j *journal.Journal, k journal.Key) {
	t.Helper()
	must(t, j.Dispatch(k, dispatchPayload(k)))
	must(t, j.Final(t.Context(), k, finalPayload(k)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// finals collects an iterator and checks each payload.
func finals(t testing.TB, seq iter.Seq2[journal.Final, error]) []journal.Key {
	t.Helper()
	var keys []journal.Key
	seen := map[journal.Key]bool{}
	for f, err := range seq {
		must(t, err)
		if string(f.Payload) != string(finalPayload(f.Key)) {
			t.Fatalf("%v came back with payload %q", f.Key, f.Payload)
		}
		if seen[f.Key] {
			t.Fatalf("%v came back twice", f.Key)
		}
		seen[f.Key] = true
		keys = append(keys, f.Key)
	}
	return keys
}

func dispatches(t testing.TB, rec *journal.Recovery) map[journal.Key]journal.Unfinished {
	t.Helper()
	found := map[journal.Key]journal.Unfinished{}
	for u, err := range rec.Dispatches() {
		must(t, err)
		if string(u.Payload) != string(dispatchPayload(u.Key)) {
			t.Fatalf("%v came back with payload %q", u.Key, u.Payload)
		}
		found[u.Key] = u
	}
	return found
}

func segments(t testing.TB, d *simdisk.Disk) []string {
	t.Helper()
	names, err := d.List()
	must(t, err)
	return names
}
