//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package workreceipts

import (
	"errors"
	"os"
	"syscall"
)

// flock takes the lock on a file, which ends with the process at the latest. taken
// reports whether another process has it.
func flock(f *os.File) (taken bool, err error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return true, nil
		default:
			return false, err
		}
	}
}
