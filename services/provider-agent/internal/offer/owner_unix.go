//go:build unix

package offer

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and the group of the file that it is to replace.
func keepOwner(file *os.File, replaced fs.FileInfo) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	was, ok := replaced.Sys().(*syscall.Stat_t)
	is, alike := info.Sys().(*syscall.Stat_t)
	if !ok || !alike || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if err := file.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("the file is of user %d and group %d, who would lose it: run the command as that user, or as "+
			"root: %w", was.Uid, was.Gid, err)
	}
	return nil
}
