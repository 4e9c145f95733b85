package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"svc.internal/pkg/clock"
)

const stopPoll = 50 * time.Millisecond

// stopPrevious ends a server that outlived our process that started it (which was killed
// with -9). A pid file whose process is gone is left to postgres, which handles it. A pid
// file whose pid now belongs to a different program is removed, because postgres would
// refuse to start. In a container, where the same small pids come back after every
// restart, it would refuse for ever.
func (c *Server) stopPrevious(ctx context.Context) error {
	file := c.path("data/postmaster.pid")
	pid, err := readPid(file)
	if err != nil || pid == 0 || !alive(pid) {
		return err
	}
	if !c.isServer(pid) {
		// A server that is just ending has removed the file itself.
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale pid file: %w", err)
		}
		return nil
	}
	c.cfg.Progress("stopping the PostgreSQL server left by a previous run")
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, fastStop}, {syscall.SIGQUIT, immediateStop}} {
		if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the PostgreSQL server of a previous run (pid %d): %w", pid, err)
		}
		if waitGone(ctx, pid, step.wait) {
			return nil
		}
	}
	return fmt.Errorf("the PostgreSQL server of a previous run (pid %d) does not stop", pid)
}

// readPid returns the pid on the first line of a postmaster.pid, 0 if there is
// no such file or it is empty, as it is for an instant while it is written.
func readPid(file string) (int, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for a running PostgreSQL server: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if first = strings.TrimSpace(first); first == "" {
		return 0, nil
	}
	pid, err := strconv.Atoi(first)
	// kill(2) has other meanings for 0, -1 and groups, and 1 is never a server.
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s does not begin with a process id", file)
	}
	return pid, nil
}

// alive returns false for a process that has ended and only waits to be reaped.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true // no /proc here
	}
	_, state, found := bytes.Cut(stat, []byte(") "))
	return !found || !bytes.HasPrefix(state, []byte("Z"))
}

// isServer reports whether pid is a postgres that was started on our data folder.
func (c *Server) isServer(pid int) bool {
	args := commandLine(pid)
	return len(args) > 0 && filepath.Base(args[0]) == "postgres" && slices.Contains(args, c.path("data"))
}

// commandLine reads /proc where there is one and asks ps elsewhere; ps joins
// the arguments with spaces, so there a folder with a space is not recognised.
func commandLine(pid int) []string {
	if text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); err == nil {
		return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	}
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec // a number
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

func waitGone(ctx context.Context, pid int, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for alive(pid) {
		if clock.Sleep(ctx, stopPoll) != nil {
			return !alive(pid)
		}
	}
	return true
}
