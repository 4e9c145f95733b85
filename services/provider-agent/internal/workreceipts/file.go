package workreceipts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"svc.internal/pkg/workreceipt"
)

const (
	fileName = "receipts"
	// freshName is the file that is written anew before it replaces the other.
	freshName = "receipts.new"
	// spareBytes of acknowledged receipts do not make the file be written anew.
	spareBytes = 1 << 20
	// maxFile bounds the file where it cannot be written anew.
	maxFile = 24 << 20
)

var errGrown = errors.New("the file is too large and cannot be written anew")

// file is the part of an *os.File that a store needs.
type file interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

func createFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// load reads the file, and cuts off the end that is no record.
func (s *Store) load() error {
	if err := os.Remove(filepath.Join(s.dir, freshName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(s.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	foreign := 0
	end := parse(data, func(r record) {
		if r.kept == nil {
			s.remove(r.acked)
			return
		}
		if r.kept.Verify(s.PublicKey()) != nil {
			foreign++ // signed with a key that this node no longer has
			return
		}
		s.keep(*r.kept, time.Time{})
	})
	if end < len(data) || foreign > 0 {
		s.log.Warn("the file of receipts is not whole", "bytes_lost", len(data)-end, "foreign", foreign)
	}
	if err := f.Truncate(int64(end)); err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.bytes = f, int64(end)
	s.dropOld()
	return nil
}

func (s *Store) path() string { return filepath.Join(s.dir, fileName) }

// append writes to the file, and writes the file anew when too much of it is not needed.
// A full disk takes a part of a write. That part is cut off again, because later records
// would stand behind it and never be read. Receipts that are not in the file are sent
// from memory, and written with the next tidying that succeeds.
func (s *Store) append(out []byte) {
	if s.file == nil || len(out) == 0 {
		return
	}
	var err error
	if s.bytes+int64(len(out)) > maxFile {
		err = errGrown
	} else if _, err = s.file.WriteAt(out, s.bytes); err != nil {
		// If that fails too, the next write takes its place.
		err = errors.Join(err, s.file.Truncate(s.bytes))
	}
	if err != nil {
		s.behind = true
		s.faulty(err)
		return
	}
	if s.grow(int64(len(out))) && !s.behind {
		err = s.rewrite()
		s.behind = err != nil // not again before the next tidying
	}
	s.faulty(err)
}

// grow counts written bytes, and reports whether the file is to be written anew.
func (s *Store) grow(by int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += by
	wasted := s.bytes - s.live
	return wasted > spareBytes && wasted > s.bytes/2
}

// sync makes written bytes durable. After a failure nobody knows what is on disk, so all
// of it is written anew.
func (s *Store) sync() {
	if s.file == nil {
		return
	}
	err := s.file.Sync()
	s.behind = s.behind || err != nil
	s.faulty(err)
}

// catchUp writes the file anew when it lacks receipts that are in memory.
func (s *Store) catchUp() {
	if s.file == nil || !s.behind {
		return
	}
	err := s.rewrite()
	s.behind = err != nil
	s.faulty(err)
}

// faulty logs once that the file cannot be written, and once that it can again.
func (s *Store) faulty(err error) {
	switch {
	case err != nil && !s.fault:
		s.fault = true
		s.log.Error("receipts cannot be kept on disk; serving goes on", "error", err)
	case err == nil && s.fault && !s.behind:
		s.fault = false
		s.log.Info("receipts are kept on disk again")
	}
}

// rewrite replaces the file by one with the kept receipts only.
func (s *Store) rewrite() error {
	s.mu.Lock()
	s.compact()
	all := make([]workreceipt.Signed, 0, len(s.order))
	for _, k := range s.order {
		all = append(all, k.signed)
	}
	s.mu.Unlock()
	var out []byte
	for _, signed := range all {
		grown, err := appendKept(out, signed)
		if err != nil {
			return err
		}
		out = grown
	}
	path := filepath.Join(s.dir, freshName)
	fresh, err := s.create(path)
	if err != nil {
		return err
	}
	_, err = fresh.WriteAt(out, 0)
	if err = errors.Join(err, fresh.Sync()); err == nil {
		err = os.Rename(path, s.path())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the receipts anew: %w", err), fresh.Close(), os.Remove(path))
	}
	old := s.file
	s.file = fresh
	s.mu.Lock()
	s.bytes = int64(len(out))
	s.mu.Unlock()
	return errors.Join(old.Close(), syncFolder(s.dir))
}

// syncFolder makes a renaming durable, because the new file would otherwise be lost with
// the machine.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
