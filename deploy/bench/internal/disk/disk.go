// Package disk measures how long the machine takes to make a write durable.
// Pages of a file that is there already are overwritten and flushed with
// fdatasync, as PostgreSQL does with its log: the least that a wait for the
// disk can be. A file that grows costs more.
package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	page     = 8 << 10
	fileSize = 1 << 20
	// Bounds of one probe.
	maxSyncs = 200
	maxTime  = 400 * time.Millisecond
)

// SyncP50 is the median time of one write and flush in dir.
func SyncP50(dir string) (time.Duration, error) {
	file := filepath.Join(dir, "sync.probe")
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close(); _ = os.Remove(file) }()
	if _, err := f.Write(make([]byte, fileSize)); err != nil {
		return 0, fmt.Errorf("fill the probe: %w", err)
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("flush the probe: %w", err)
	}
	buf := make([]byte, page)
	var took []time.Duration
	for begin := time.Now(); len(took) < maxSyncs && (len(took) == 0 || time.Since(begin) < maxTime); {
		n := len(took)
		buf[n%page]++
		start := time.Now()
		if _, err := f.WriteAt(buf, int64(n*page%fileSize)); err != nil {
			return 0, fmt.Errorf("write the probe: %w", err)
		}
		if err := flush(f); err != nil {
			return 0, fmt.Errorf("flush the probe: %w", err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
