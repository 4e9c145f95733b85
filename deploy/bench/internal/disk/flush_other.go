//go:build !linux

package disk

import "os"

func flush(f *os.File) error { return f.Sync() }
