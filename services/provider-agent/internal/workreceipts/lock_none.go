//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package workreceipts

import (
	"errors"
	"os"
)

// flock is not to be had on this system.
func flock(*os.File) (taken bool, err error) {
	return false, errors.ErrUnsupported
}
