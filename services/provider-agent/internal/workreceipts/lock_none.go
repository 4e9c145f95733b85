//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package workreceipts

import (
	"errors"
	"os"
)

// flock locks nothing, because this system has no such lock.
func flock(*os.File) (taken bool, err error) {
	return false, errors.ErrUnsupported
}
