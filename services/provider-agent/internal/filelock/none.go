//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package filelock

import (
	"errors"
	"os"
)

// Take locks nothing, because this system has no such lock.
func Take(*os.File) (taken bool, err error) {
	return false, errors.ErrUnsupported
}
