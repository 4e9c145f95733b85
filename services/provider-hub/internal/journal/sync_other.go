//go:build !linux

package journal

import "os"

// syncData flushes the file as thoroughly as the platform offers.
func syncData(f *os.File) error { return f.Sync() }
