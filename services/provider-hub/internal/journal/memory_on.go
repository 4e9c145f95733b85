//go:build crashpoints

package journal

import (
	"io"
	"sync"

	"svc.internal/pkg/crash"
)

// memory is the planted fault crash.JournalWithoutFsync: a file that is written to stays as
// it was on the disk, its new content is in this process alone, and syncs lie.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte // content of the files that were written to
}

func (m *memory) file(name string, f diskFile) File {
	if !crash.Planted(crash.JournalWithoutFsync) {
		return f
	}
	return &forgetful{diskFile: f, name: name, memory: m}
}

// forgetful is a file that is written to in memory only.
type forgetful struct {
	diskFile
	name   string
	memory *memory
}

// contentLocked is the file as this process sees it.
func (f *forgetful) contentLocked() ([]byte, error) {
	if content, ok := f.memory.files[f.name]; ok {
		return content, nil
	}
	size, err := f.diskFile.Size()
	if err != nil {
		return nil, err
	}
	content := make([]byte, size)
	if _, err := f.diskFile.ReadAt(content, 0); err != nil {
		return nil, err
	}
	return content, nil
}

// change puts what edit makes of the file's content into memory.
func (f *forgetful) change(edit func([]byte) []byte) error {
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	content, err := f.contentLocked()
	if err != nil {
		return err
	}
	if f.memory.files == nil {
		f.memory.files = map[string][]byte{}
	}
	f.memory.files[f.name] = edit(content)
	return nil
}

func (f *forgetful) WriteAt(p []byte, off int64) (int, error) {
	err := f.change(func(content []byte) []byte {
		if missing := off + int64(len(p)) - int64(len(content)); missing > 0 {
			content = append(content, make([]byte, missing)...)
		}
		copy(content[off:], p)
		return content
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *forgetful) ReadAt(p []byte, off int64) (int, error) {
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	content, err := f.contentLocked()
	if err != nil {
		return 0, err
	}
	n := 0
	if off < int64(len(content)) {
		n = copy(p, content[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *forgetful) Size() (int64, error) {
	f.memory.mu.Lock()
	defer f.memory.mu.Unlock()
	content, err := f.contentLocked()
	return int64(len(content)), err
}

func (f *forgetful) Truncate(size int64) error {
	return f.change(func(content []byte) []byte { return content[:size] })
}

func (f *forgetful) Sync() error { return nil }
