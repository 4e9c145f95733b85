package fleet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxLog bounds a log file, in bytes. The file before it is kept as <name>.1.
const maxLog = 8 << 20

// logFile is the log of one process over all its starts.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open log: %w", err), file.Close())
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends p and begins a new file when this one is full. It never fails, because a
// process whose log cannot be written, when the disk is full, would be ended by the pipe
// that it writes to. Bytes that did not fit are lost.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxLog {
		l.rotateLocked()
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	if err != nil {
		l.size += int64(len(p) - n) // rotation may make room, so it must come in time
	}
	return len(p), nil
}

// rotateLocked begins a new file, or keeps the old one.
func (l *logFile) rotateLocked() {
	old := l.file
	if os.Rename(l.path, l.path+".1") != nil || l.open() != nil {
		l.size = 0
		return
	}
	if err := old.Close(); err != nil {
		return // the file is replaced either way
	}
}

// tail is the last n bytes of a file; empty where it cannot be read.
func tail(path string, n int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := file.Seek(-n, io.SeekEnd); err != nil {
		// The file is shorter.
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, n))
	if err != nil {
		return ""
	}
	return string(text)
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
