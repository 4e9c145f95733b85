//go:build crashpoints

package journal

import (
	"io"
	"sync"

	"svc.internal/pkg/crash"
)

// memory is the planted fault crash.JournalWithoutFsync: appended bytes stay in this
// process and never reach the disk, and syncs lie. Only this process sees whole files.
type memory struct {
	mu    sync.Mutex
	tails map[string][]byte
}

func (m *memory) file(name string, f diskFile) File {
	if !crash.Planted(crash.JournalWithoutFsync) {
		return f
	}
	return &forgetful{diskFile: f, name: name, memory: m}
}

// forgetful is a file whose end is in memory only.
type forgetful struct {
	diskFile
	name   string
	memory *memory
}

func (f *forgetful) Write(p []byte) (int, error) {
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	if f.memory.tails == nil {
		f.memory.tails = map[string][]byte{}
	}
	f.memory.tails[f.name] = append(f.memory.tails[f.name], p...)
	return len(p), nil
}

func (f *forgetful) ReadAt(p []byte, off int64) (int, error) {
	onDisk, err := f.diskFile.Size()
	if err != nil {
		return 0, err
	}
	n := 0
	if off < onDisk {
		n, err = f.diskFile.ReadAt(p[:min(int64(len(p)), onDisk-off)], off)
		if err != nil {
			return n, err
		}
	}
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	tail := f.memory.tails[f.name]
	if at := off + int64(n) - onDisk; n < len(p) && at < int64(len(tail)) {
		n += copy(p[n:], tail[at:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *forgetful) Size() (int64, error) {
	size, err := f.diskFile.Size()
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	return size + int64(len(f.memory.tails[f.name])), err
}

func (f *forgetful) Truncate(size int64) error {
	onDisk, err := f.diskFile.Size()
	if err != nil {
		return err
	}
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	if size >= onDisk {
		f.memory.tails[f.name] = f.memory.tails[f.name][:size-onDisk]
		return nil
	}
	delete(f.memory.tails, f.name)
	return f.diskFile.Truncate(size)
}

func (f *forgetful) Sync() error { return nil }
