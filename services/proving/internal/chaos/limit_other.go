//go:build !linux

package chaos

import "errors"

// limitFiles is implemented for Linux only.
func limitFiles(int, bool) error { return errors.ErrUnsupported }

// family is a process, without its children.
func family(pid int) []int {
	if pid == 0 {
		return nil
	}
	return []int{pid}
}
