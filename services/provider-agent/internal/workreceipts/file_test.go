package workreceipts

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc.internal/pkg/clock"
)

// disk is one of so much room, for the files of a store. What does not fit is
// written up to there, as by a kernel.
type disk struct {
	room   int64
	unsync bool // syncing fails
	files  map[string]int64
}

// full is a file on a disk.
type full struct {
	*os.File
	disk *disk
	name string
}

// on puts a store's files on a disk.
func (d *disk) on(s *Store) {
	d.files = map[string]int64{fileName: s.bytes}
	s.create = func(path string) (file, error) {
		f, err := createFile(path)
		if err != nil {
			return nil, err
		}
		d.files[filepath.Base(path)] = 0
		return &full{f.(*os.File), d, filepath.Base(path)}, nil
	}
	s.file = &full{s.file.(*os.File), d, fileName}
}

func (d *disk) used() (n int64) {
	for _, size := range d.files {
		n += size
	}
	return n
}

func (f *full) WriteAt(p []byte, at int64) (int, error) {
	fits := min(int64(len(p)), max(f.disk.room-f.disk.used()+f.disk.files[f.name]-at, 0))
	n, err := f.File.WriteAt(p[:fits], at)
	f.disk.files[f.name] = max(f.disk.files[f.name], at+int64(n))
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *full) Truncate(size int64) error {
	f.disk.files[f.name] = size
	return f.File.Truncate(size)
}

func (f *full) Sync() error {
	if f.disk.unsync {
		return syscall.EIO
	}
	return nil
}

func (f *full) Close() error {
	delete(f.disk.files, f.name)
	return f.File.Close()
}

// after is what a new process finds.
func after(t *testing.T, s *Store) (found []int, log string) {
	t.Helper()
	kill(s)
	var out bytes.Buffer
	again := open(t, s.dir, s.clock, &out)
	found = numbers(again.Due(100))
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	return found, out.String()
}

func TestAFullDiskCostsNoMoreThanItsReceipts(t *testing.T) {
	log, d := &bytes.Buffer{}, &disk{}
	s := open(t, t.TempDir(), clock.NewManual(began), log)
	add(s, began, 0, 1)
	d.on(s)
	d.room = s.bytes + 40 // a piece of a record
	whole := s.bytes
	add(s, began, 2)
	add(s, began, 3)
	if info, err := os.Stat(s.path()); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got := info.Size(); got != whole {
		t.Errorf("the file: info.Size(): got %d, want %d", got, whole)
	} else if s.Status().Bytes != whole {
		t.Errorf("s.Status().Bytes: got %d, want %d", s.Status().Bytes, whole)
	}
	if got := s.Status(); got.Kept != 4 {
		t.Errorf("Kept: got %d, want 4", got.Kept)
	} else if strings.Count(log.String(), "cannot be kept") != 1 {
		t.Errorf("strings.Count(…): got %d, want 1", strings.Count(log.String(), "cannot be kept"))
	}
	s.clock.(*clock.Manual).Advance(time.Minute)
	if got := numbers(s.Due(10)); !same(got, 0, 1, 2, 3) {
		t.Errorf("%v is sent", got)
	}
	d.room += 1 << 20 // an owner made room
	add(s, began, 4)
	found, said := after(t, s)
	if !same(found, 0, 1, 4) {
		t.Errorf("a process that starts then finds: same(found, 0, 1, 4): got false, want true, with %v", found)
	} else if strings.Contains(said, "not whole") {
		t.Errorf(`said: got %q, want it without "not whole"`, said)
	}
}

func TestReceiptsOfAFullDiskAreInTheFileOnceThereIsRoom(t *testing.T) {
	log, d := &bytes.Buffer{}, &disk{}
	s := open(t, t.TempDir(), clock.NewManual(began), log)
	add(s, began, 0)
	d.on(s)
	d.room = s.bytes + 40
	add(s, began, 1)
	s.catchUp()
	if left, err := os.Stat(filepath.Join(s.dir, freshName)); err == nil {
		t.Errorf("%v is left behind", left)
	}
	if found, _ := after(t, s); !same(found, 0) {
		t.Errorf("found %v", found)
	}
	d.room += 1 << 20
	add(s, began, 2)
	s.catchUp()
	s.catchUp()
	add(s, began, 3)
	if found, said := after(t, s); !same(found, 0, 1, 2, 3) {
		t.Errorf("same(found, 0, 1, 2, 3): got false, want true, with %v", found)
	} else if said != "" {
		t.Errorf(`said: got %q, want ""`, said)
	}
	if text := log.String(); strings.Count(text, "cannot be kept") != 1 {
		t.Errorf("strings.Count(…): got %d, want 1", strings.Count(text, "cannot be kept"))
	} else if strings.Count(text, "on disk again") != 1 {
		t.Errorf(`strings.Count(text, "on disk again"): got %d, want 1`, strings.Count(text, "on disk again"))
	}
}

// After a sync that failed nobody knows what is on disk.
func TestAFailedSyncHasTheFileWrittenAnew(t *testing.T) {
	d := &disk{room: 1 << 20}
	s := open(t, t.TempDir(), clock.NewManual(began), &bytes.Buffer{})
	d.on(s)
	add(s, began, 0)
	d.unsync = true
	s.sync()
	s.catchUp()
	d.unsync = false
	old := s.file
	s.catchUp()
	if s.file == old {
		t.Errorf("the file, written anew: s.file: got %v, want any but %v", s.file, old)
	} else if s.behind {
		t.Error("the file, written anew: s.behind: got true, want false")
	}
	if found, _ := after(t, s); !same(found, 0) {
		t.Errorf("found %v", found)
	}
}

func TestAFileThatCannotBeWrittenAnewIsBounded(t *testing.T) {
	s := open(t, t.TempDir(), clock.NewManual(began), &bytes.Buffer{})
	s.create = func(string) (file, error) { return nil, syscall.ENOSPC }
	attempts := 0
	count := s.create
	s.create = func(path string) (file, error) { attempts++; return count(path) }
	add(s, began, 0)
	waste := make([]byte, spareBytes)
	for range maxFile/spareBytes + 3 {
		s.append(waste)
	}
	if got := s.Status().Bytes; got > maxFile {
		t.Errorf("the file: got %d, want at most %d", got, maxFile)
	} else if !s.behind {
		t.Error("s.behind: got false, want true")
	}
	if attempts != 1 {
		t.Errorf("tries to write it anew between two tidyings: got %d, want 1", attempts)
	}
	s.create = createFile
	s.catchUp()
	if found, _ := after(t, s); !same(found, 0) {
		t.Errorf("found %v", found)
	}
}

func TestTwoAgentsWithOneFolderAreToldSo(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, clock.System, &bytes.Buffer{})
	_, err := Open(dir, rand.Reader, clock.System, slog.New(slog.DiscardHandler))
	switch {
	case err == nil:
		t.Fatal("the second is told: got no error, want one")
	case !strings.Contains(err.Error(), "another agent is running"):
		t.Fatalf(`the second is told: got the error %q, want "another agent is running" in it`, err)
	case !strings.Contains(err.Error(), dir):
		t.Fatalf("the second is told: got the error %q, want %q in it", err, dir)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	first.Run(ctx)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, clock.System, &bytes.Buffer{})
}

func TestAFolderThatCannotBeOpenedIsNotLocked(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(dir, rand.Reader, clock.System, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("got no error, want one")
		} else if strings.Contains(err.Error(), "another agent") {
			t.Errorf(`told: got the error %q, want it without "another agent"`, err)
		}
	}
}
