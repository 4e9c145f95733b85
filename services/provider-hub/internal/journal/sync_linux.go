package journal

import (
	"errors"
	"os"
	"syscall"
)

// keepSize makes fallocate reserve blocks behind a file's end without moving the end.
const keepSize = 1

// reserve makes room for a file to grow to a size in bytes. Where the file system cannot
// do that, nothing is reserved, and only the floor of free space guards the journal.
func reserve(f *os.File, bytes int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), keepSize, 0, bytes)
		switch {
		case err == nil, errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return nil
		case !errors.Is(err, syscall.EINTR):
			return os.NewSyscallError("fallocate", err)
		}
	}
}

// free is how many bytes may still be written below a folder.
func free(path string) (int64, error) {
	var of syscall.Statfs_t
	if err := syscall.Statfs(path, &of); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(of.Bavail) * of.Bsize, nil
}

// syncData flushes content and length. File times are left out, because they would cost a
// journal write of the file system.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
