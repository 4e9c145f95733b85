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
	if info, err := os.Stat(s.path()); err != nil || info.Size() != whole || s.Status().Bytes != whole {
		t.Errorf("the file is %v, %v, of which %d count", info, err, s.Status().Bytes)
	}
	if got := s.Status(); got.Kept != 4 || strings.Count(log.String(), "cannot be kept") != 1 {
		t.Errorf("%+v\n%s", got, log)
	}
	s.clock.(*clock.Manual).Advance(time.Minute)
	if got := numbers(s.Due(10)); !same(got, 0, 1, 2, 3) {
		t.Errorf("%v is sent", got)
	}
	d.room += 1 << 20 // an owner made room
	add(s, began, 4)
	found, said := after(t, s)
	if !same(found, 0, 1, 4) || strings.Contains(said, "not whole") {
		t.Errorf("a process that starts then finds %v\n%s", found, said)
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
	if found, said := after(t, s); !same(found, 0, 1, 2, 3) || said != "" {
		t.Errorf("found %v\n%s", found, said)
	}
	if text := log.String(); strings.Count(text, "cannot be kept") != 1 || strings.Count(text, "on disk again") != 1 {
		t.Error(text)
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
	if s.file == old || s.behind {
		t.Error("the file stands as it is")
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
	if got := s.Status().Bytes; got > maxFile || !s.behind {
		t.Errorf("the file is of %d bytes", got)
	}
	if attempts != 1 {
		t.Errorf("it was tried %d times to write it anew between two tidyings", attempts)
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
	if err == nil || !strings.Contains(err.Error(), "another agent is running") || !strings.Contains(err.Error(), dir) {
		t.Fatalf("the second is told %v", err)
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
		if _, err := Open(dir, rand.Reader, clock.System, slog.New(slog.DiscardHandler)); err == nil ||
			strings.Contains(err.Error(), "another agent") {
			t.Errorf("told %v", err)
		}
	}
}
