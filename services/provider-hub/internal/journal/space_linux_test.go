package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// small mounts a file system of so many bytes.
func small(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("no small file system can be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

type now struct{}

func (now) Now() time.Time { return time.Unix(1, 0) }

func numbered(n int) Key {
	k := Key{}
	k.Request[0], k.Request[1], k.Request[2] = byte(n>>16), byte(n>>8), byte(n)
	return k
}

func TestADiskThatOthersFillEndsNoJournal(t *testing.T) {
	dir := small(t, "16m")
	cfg := Config{Dir: filepath.Join(dir, "journal"), Clock: now{}, SegmentBytes: 1 << 20, MaxBytes: 8 << 20}
	j, _, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	const attempts = 100
	payload := make([]byte, 14<<10) // together more than the segment that is written has room for
	for n := range attempts {
		if err := j.Dispatch(numbered(n), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 32<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a file system of 16 MiB takes 32: got the error %v, want %v", err, syscall.ENOSPC)
	}
	j.space.look()
	switch err := j.Dispatch(numbered(attempts), nil); {
	case !errors.Is(err, ErrSpace):
		t.Errorf("a dispatch on a full disk: got the error %v, want %v", err, ErrSpace)
	case !errors.Is(err, ErrFull):
		t.Errorf("a dispatch on a full disk: got the error %v, want %v", err, ErrFull)
	case !j.Usage().NoSpace:
		t.Error("a dispatch on a full disk: j.Usage().NoSpace: got false, want true")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range attempts {
		if err := j.Final(ctx, numbered(n), payload); err != nil {
			t.Fatalf("the usage of attempt %d is lost on a full disk: %v", n, err)
		}
	}
	switch got := j.Usage(); {
	case got.Unsettled != attempts:
		t.Errorf("Unsettled: got %d, want %d", got.Unsettled, attempts)
	case got.Segments < 2:
		t.Errorf("Segments: got %d, want at least 2", got.Segments)
	case j.Err() != nil:
		t.Errorf("j.Err(): got the error %v, want none", j.Err())
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	// It goes on by itself.
	for deadline := time.NewTimer(time.Minute); j.Usage().NoSpace; {
		look := time.NewTimer(10 * time.Millisecond)
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatal("no dispatch is taken although there is room")
		}
	}
	if err := j.Dispatch(numbered(attempts), nil); err != nil {
		t.Errorf("a dispatch behind it: %v", err)
	}
}

func TestAJournalOpensOnAFullDiskAndSaysSo(t *testing.T) {
	dir := small(t, "16m")
	cfg := Config{Dir: filepath.Join(dir, "journal"), Clock: now{}, SegmentBytes: 1 << 20, MaxBytes: 8 << 20}
	j, _, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Dispatch(numbered(1), nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Final(t.Context(), numbered(1), []byte("usage")); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 32<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a file system of 16 MiB takes 32: got the error %v, want %v", err, syscall.ENOSPC)
	}
	again, found, err := Open(cfg)
	if err != nil {
		t.Fatalf("it does not open on a full disk: %v", err)
	}
	defer func() { _ = again.Close() }() // what it says is not the test's
	if err := again.Dispatch(numbered(2), nil); !errors.Is(err, ErrSpace) {
		t.Errorf("a dispatch: got the error %v, want %v", err, ErrSpace)
	} else if found.Unsettled != 1 {
		t.Errorf("a dispatch: found.Unsettled: got %d, want 1", found.Unsettled)
	}
	if err := again.Settled(numbered(1)); err != nil {
		t.Error(err)
	}
	if err := again.Sync(t.Context()); err != nil {
		t.Errorf("what is settled cannot be recorded: %v", err)
	}
}

func TestWhatIsReservedIsGivenBackWithItsSegment(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Clock: now{}, SegmentBytes: 1 << 20, MaxBytes: 8 << 20}
	for range 3 { // each life begins a segment
		j, _, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Dispatch(numbered(1), nil); err != nil && !errors.Is(err, ErrDuplicate) {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	used := int64(0)
	for _, e := range found {
		var of syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, e.Name()), &of); err != nil {
			t.Fatal(err)
		}
		used += of.Blocks * 512
	}
	if most := int64(3 << 20); used > most {
		t.Errorf("%d files take: got %d bytes of the disk, want at most %d", len(found), used, most)
	}
}
