package trial

import (
	"bytes"
	"sync"
)

// maxOutput bounds the kept part of a market's console and log, in bytes.
const maxOutput = 4 << 20

// Output keeps the end of what a market writes, at most 4 MiB, and signals when the
// market reports that it is running.
type Output struct {
	mu    sync.Mutex
	buf   []byte
	once  sync.Once
	ready chan struct{}
}

// NewOutput is an empty output.
func NewOutput() *Output { return &Output{ready: make(chan struct{})} }

// Ready is closed once the market has reported that it is running.
func (o *Output) Ready() <-chan struct{} { return o.ready }

// Write keeps p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf = append(o.buf, p...)
	if bytes.Contains(p, []byte("The marketplace is running.")) {
		o.once.Do(func() { close(o.ready) })
	}
	if len(o.buf) > maxOutput {
		o.buf = append([]byte(nil), o.buf[len(o.buf)-maxOutput/2:]...)
	}
	return len(p), nil
}

// Text is everything that is kept.
func (o *Output) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.buf)
}

// Tail is the last n bytes of s.
func Tail(s string, n int) string { return s[max(0, len(s)-n):] }
