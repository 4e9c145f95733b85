package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Disk is the folder that holds the segments. Names are plain file names. A crash may
// undo any creation, removal or write until the matching Sync has returned without error.
type Disk interface {
	// List returns the names of all files, in any order.
	List() ([]string, error)
	// Create makes an empty file. It fails with fs.ErrExist where the file exists.
	Create(name string) (File, error)
	// Open opens a file. It fails with fs.ErrNotExist where the file does not exist.
	Open(name string) (File, error)
	// Remove unlinks a file.
	Remove(name string) error
	// Sync makes creations and removals durable.
	Sync() error
	// Close releases the folder.
	Close() error
}

// File is one file of a Disk.
type File interface {
	// WriteAt writes over what is there, and behind the end makes the file longer.
	io.WriterAt
	io.ReaderAt
	io.Closer
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate cuts the file to size bytes.
	Truncate(size int64) error
	// Sync makes the content and the length durable.
	Sync() error
}

const (
	lockName = "LOCK"
	// reserveName is a file without content that keeps room for the next segment.
	reserveName = "RESERVE"
)

// folder is a Disk on the operating system's file system. It holds an
// exclusive lock, so that two processes never write to the same journal.
type folder struct {
	path string
	dir  *os.File
	lock *os.File
	// memory is where a planted fault keeps written bytes. Ordinary builds have none.
	memory memory
}

func openFolder(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make journal folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock journal folder %s, is another process using it? %w", path, err),
			lock.Close())
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open journal folder: %w", err), lock.Close())
	}
	return &folder{path: path, dir: dir, lock: lock}, nil
}

func (f *folder) List() ([]string, error) {
	found, err := os.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names, nil
}

func (f *folder) Create(name string) (File, error) {
	return f.open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
}

func (f *folder) Open(name string) (File, error) {
	return f.open(name, os.O_RDWR)
}

func (f *folder) open(name string, flag int) (File, error) {
	file, err := os.OpenFile(filepath.Join(f.path, name), flag, 0o600)
	if err != nil {
		return nil, err
	}
	return f.memory.file(name, diskFile{file}), nil
}

func (f *folder) Remove(name string) error { return os.Remove(filepath.Join(f.path, name)) }

// Free implements spacious.
func (f *folder) Free() (int64, error) { return free(f.path) }

// Hold implements spacious.
func (f *folder) Hold(bytes int64) error {
	file, err := os.OpenFile(filepath.Join(f.path, reserveName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(reserve(file, bytes), file.Close())
}

// Drop implements spacious.
func (f *folder) Drop() error {
	if err := os.Remove(filepath.Join(f.path, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *folder) Sync() error { return f.dir.Sync() }

// Close releases the lock itself, because a child process that is just starting has a
// copy of the file and would keep the lock a little longer.
func (f *folder) Close() error {
	return errors.Join(f.dir.Close(), syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN), f.lock.Close())
}

type diskFile struct{ *os.File }

func (d diskFile) Size() (int64, error) {
	info, err := d.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Reserve implements reserver.
func (d diskFile) Reserve(bytes int64) error { return reserve(d.File, bytes) }

func (d diskFile) Sync() error { return syncData(d.File) }
