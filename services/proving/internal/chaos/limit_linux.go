package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// limitFiles keeps processes from writing to files, or lets them write again. The kernel
// refuses their writes with EFBIG, which looks to them like a full disk. Only the soft
// limit is changed, and forked processes inherit it. The change is made by util-linux's
// prlimit as the user of the processes, because even root may lack the right to change
// the limits of others, and PostgreSQL runs as another user.
func limitFiles(pid int, full bool) error {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	limit := "unlimited"
	if full {
		limit = "0"
	}
	size := "--fsize=" + limit + ":unlimited"
	cmd := exec.Command("prlimit", "--pid", strconv.Itoa(pid), size) //nolint:gosec // the arguments are ours
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(owner.Uid) != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	out, err := cmd.CombinedOutput()
	if _, gone := os.Stat("/proc/" + strconv.Itoa(pid)); err != nil && gone == nil {
		return fmt.Errorf("prlimit: %w: %s", err, out)
	}
	return nil
}

// family is a process and its children; empty where it does not run.
func family(pid int) []int {
	if pid == 0 {
		return nil
	}
	pids := []int{pid}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	if err != nil {
		return pids // it has ended
	}
	for _, word := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}
