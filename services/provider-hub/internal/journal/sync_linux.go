package journal

import (
	"errors"
	"os"
	"syscall"
)

// syncData flushes content and length; times are not worth a journal write of
// the file system.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
