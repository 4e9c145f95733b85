package workreceipts

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
)

var began = time.UnixMilli(1_790_000_000_000).UTC()

func open(t testing.TB, dir string, c clock.Clock, log *bytes.Buffer) *Store {
	t.Helper()
	s, err := Open(dir, rand.Reader, c, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(s) })
	return s
}

// kill is the death of the process: nothing is closed or synced, and the lock is
// free.
func kill(s *Store) {
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

func receipt(n int, at time.Time) workreceipt.Receipt {
	r := workreceipt.Receipt{
		Attempt: 1, Provider: ids.ProviderID{1}, Epoch: 2, Model: "m", SentTokens: 3, SentBytes: 4, Complete: true,
		EndedAt: at, Proof: []byte("proof"),
	}
	binary.BigEndian.PutUint32(r.Request[:], uint32(n+1))
	return r
}

// numbers are the receipts due, by the number that they were made with.
func numbers(list []workreceipt.Signed) []int {
	var out []int
	for _, s := range list {
		out = append(out, int(binary.BigEndian.Uint32(s.Request[:]))-1)
	}
	return out
}

func add(s *Store, at time.Time, all ...int) {
	for _, n := range all {
		s.Add(receipt(n, at))
	}
	s.write()
}

func same(a []int, b ...int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestWhatIsNotAcknowledgedOutlivesTheProcess(t *testing.T) {
	dir, c, log := t.TempDir(), clock.NewManual(began), &bytes.Buffer{}
	s := open(t, dir, c, log)
	add(s, began, 0, 1, 2)
	s.Acked(receipt(1, began).Key(), "")
	s.write()
	kill(s)
	again := open(t, dir, c, log)
	due := again.Due(10)
	if got := numbers(due); !same(got, 0, 2) {
		t.Fatalf("receipts %v are due after a restart", got)
	}
	for _, signed := range due {
		if err := signed.Verify(s.PublicKey()); err != nil {
			t.Error(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"receipt-key": 0o600, "receipts": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		} else if got := info.Mode().Perm(); got != mode {
			t.Errorf("%s: info.Mode().Perm(): got %v, want %v", name, got, mode)
		}
	}
}

func TestReceiptsAreSentAgainEverMoreRarelyAndAtOnceOnANewConnection(t *testing.T) {
	c := clock.NewManual(began)
	s := open(t, "", c, &bytes.Buffer{})
	add(s, began, 0, 1)
	if got := s.Due(10); len(got) != 0 {
		t.Errorf("sent before it can be settled: got %d, want 0", len(got))
	}
	c.Advance(settleWait)
	if got := numbers(s.Due(1)); !same(got, 0) {
		t.Errorf("one at a time is %v", got)
	}
	if got := numbers(s.Due(10)); !same(got, 1) {
		t.Errorf("then %v", got)
	}
	for _, wait := range []time.Duration{retryFirst, 2 * retryFirst, 4 * retryFirst} {
		c.Advance(wait - 1)
		if got := s.Due(10); len(got) != 0 {
			t.Errorf("sent again before %v: got %d, want 0", wait, len(got))
		}
		c.Advance(1)
		if got := s.Due(10); len(got) != 2 {
			t.Errorf("sent again after %v: got %d, want 2", wait, len(got))
		}
	}
	s.Connected()
	if got := numbers(s.Due(10)); !same(got, 0, 1) {
		t.Errorf("a new connection is sent %v", got)
	}
}

func TestATornTailCostsItsRecordOnly(t *testing.T) {
	dir, log := t.TempDir(), &bytes.Buffer{}
	s := open(t, dir, clock.NewManual(began), log)
	add(s, began, 0, 1)
	whole, err := os.ReadFile(s.path())
	if err != nil {
		t.Fatal(err)
	}
	kill(s)
	for cut := len(whole)/2 + 1; cut < len(whole); cut += 17 {
		if err := os.WriteFile(s.path(), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, dir, clock.NewManual(began), log)
		if got := numbers(again.Due(10)); !same(got, 0) {
			t.Fatalf("cut at %d of %d, %v is there", cut, len(whole), got)
		}
		add(again, began, 2)
		kill(again)
		last := open(t, dir, clock.NewManual(began), log)
		if got := numbers(last.Due(10)); !same(got, 0, 2) {
			t.Fatalf("what is written behind a torn tail is read as %v", got)
		}
		kill(last)
	}
	if !strings.Contains(log.String(), "not whole") {
		t.Errorf(`nobody is told: got %q, want "not whole" in it`, log.String())
	}
}

func TestReceiptsOfAnotherKeyAreNotSent(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, clock.NewManual(began), &bytes.Buffer{})
	add(first, began, 0)
	kill(first)
	if err := os.Remove(filepath.Join(dir, keyFile)); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir, clock.NewManual(began), &bytes.Buffer{})
	if got := second.Due(10); len(got) != 0 {
		t.Errorf("len(got): got %d, want 0", len(got))
	}
	kill(second)
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, rand.Reader, clock.System, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a broken key: got no error, want one")
	} else if strings.Contains(err.Error(), "not a key") {
		t.Errorf(`a broken key: got the error %q, want it without "not a key"`, err)
	}
}

func TestAFullStoreDropsAndSaysSo(t *testing.T) {
	log := &bytes.Buffer{}
	s := open(t, "", clock.NewManual(began), log)
	for n := range maxQueue + 1 {
		s.Add(receipt(n, began))
	}
	if got := s.Status(); got.Dropped != 1 {
		t.Errorf("where one more than may wait: got %d, want 1", got.Dropped)
	}
	s.write()
	// A signature takes most of a millisecond under the race detector, so most receipts
	// share one.
	signed := workreceipt.Sign(s.key, receipt(0, began))
	n := maxQueue
	for ; s.Status().Kept < maxKept-1000; n++ {
		signed.Receipt = receipt(n, began)
		s.keep(signed, began)
	}
	for ; s.Status().Dropped == 1; n++ {
		s.Add(receipt(n, began))
		if n%1000 == 0 {
			s.write()
		}
	}
	if got := s.Status().Kept; got > maxKept {
		t.Errorf("s.Status().Kept: got %d, want at most %d", got, maxKept)
	} else if s.live > maxBytes {
		t.Errorf("s.live: got %d, want at most %d", s.live, maxBytes)
	}
	s.tidy()
	s.tidy()
	if n := strings.Count(log.String(), "were dropped"); n != 1 {
		t.Errorf("told: got %d, want 1", n)
	}
}

func TestAWeekOldReceiptIsDropped(t *testing.T) {
	dir, c, log := t.TempDir(), clock.NewManual(began), &bytes.Buffer{}
	s := open(t, dir, c, log)
	add(s, began, 0)
	c.Advance(maxAge)
	add(s, c.Now(), 1)
	c.Advance(time.Second)
	s.tidy()
	s.write()
	if s.Status().Kept != 1 {
		t.Errorf("s.Status().Kept: got %d, want 1", s.Status().Kept)
	} else if !strings.Contains(log.String(), "7 days") {
		t.Errorf(`log: got %q, want "7 days" in it`, log.String())
	}
	kill(s)
	if got := numbers(open(t, dir, c, log).Due(10)); !same(got, 1) {
		t.Errorf("after a restart %v", got)
	}
}

func TestTheFileIsWrittenAnewWithoutWhatIsAcknowledged(t *testing.T) {
	dir, c := t.TempDir(), clock.NewManual(began)
	s := open(t, dir, c, &bytes.Buffer{})
	largest := int64(0)
	for n := range 5000 {
		large := receipt(n, began)
		large.Model, large.Proof = strings.Repeat("m", workreceipt.MaxModel), make([]byte, workreceipt.MaxProof)
		s.Add(large)
		s.write()
		if n > 0 {
			s.Acked(receipt(n, began).Key(), "")
		}
		largest = max(largest, s.Status().Bytes)
	}
	s.write()
	if largest > 2*spareBytes {
		t.Errorf("the file grew: got %d, want at most %d", largest, 2*spareBytes)
	} else if s.Status().Kept != 1 {
		t.Errorf("s.Status().Kept: got %d, want 1", s.Status().Kept)
	}
	kill(s)
	if got := numbers(open(t, dir, c, &bytes.Buffer{}).Due(10)); !same(got, 0) {
		t.Errorf("after a restart %v", got)
	}
}

func TestRunWritesTheRestWhenItEnds(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, clock.System, &bytes.Buffer{})
	s.Add(receipt(0, time.Now()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := numbers(open(t, dir, clock.System, &bytes.Buffer{}).Due(10)); !same(got, 0) {
		t.Errorf("%v", got)
	}
}

func FuzzRecordsAreReadUpToTheDamage(f *testing.F) {
	s, err := Open("", rand.Reader, clock.System, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	good, err := appendKept(nil, workreceipt.Sign(s.key, receipt(0, began)))
	if err != nil {
		f.Fatal(err)
	}
	good = appendAcked(good, receipt(1, began).Key())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(appendRecord(nil, 9, []byte("of a later version")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		before := 0
		end := parse(data, func(record) { before++ })
		if end > len(data) {
			t.Fatalf("read: got %d, want at most %d", end, len(data))
		}
		again := 0
		if parse(appendAcked(bytes.Clone(data[:end]), receipt(2, began).Key()), func(record) { again++ }); again != before+1 {
			t.Fatalf("%d records and one behind them: got %d, want %d", before, again, before+1)
		}
	})
}
