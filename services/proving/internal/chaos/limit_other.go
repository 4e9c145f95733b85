//go:build !linux

package chaos

import "errors"

// limitFiles is known for Linux alone.
func limitFiles(int, bool) error { return errors.ErrUnsupported }

// family is a process, without its children.
func family(pid int) []int {
	if pid == 0 {
		return nil
	}
	return []int{pid}
}
