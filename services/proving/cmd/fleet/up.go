package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// poll is the pause between two looks at a file or a lock.
const poll = 50 * time.Millisecond

// up starts "fleet run" as a session of its own and prints its output until the fleet is
// ready.
func up(ctx context.Context, o options, out io.Writer) error {
	switch _, err := locate(o.dir); {
	case err == nil:
		fmt.Fprintln(out, "  The fleet is running already.")
		return status(ctx, o, out)
	case !errors.Is(err, errNotRunning):
		return err
	}
	if err := os.MkdirAll(filepath.Join(o.dir, "log"), 0o755); err != nil { //nolint:gosec // its files are private
		return fmt.Errorf("make the fleet's folder: %w", err)
	}
	if err := os.Remove(filepath.Join(o.dir, stateFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove a stale state file: %w", err)
	}
	log, err := os.Create(logPath(o.dir))
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	ended, err := detach(o, log)
	if err != nil {
		return err
	}
	ready := func() (bool, error) {
		select {
		case err := <-ended:
			return false, fmt.Errorf("the fleet did not start (%w); logs are in %s", err, filepath.Join(o.dir, "log"))
		default:
		}
		s, err := readState(o.dir)
		return err == nil && s.Socket != "", nil
	}
	return follow(ctx, logPath(o.dir), 0, out, ready)
}

func logPath(dir string) string { return filepath.Join(dir, "log", "fleet.log") }

// detach starts the supervisor. The channel receives how it ended.
func detach(o options, log *os.File) (<-chan error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, "run", "-dir", o.dir, "-bin", o.bin, //nolint:gosec // this very program
		fmt.Sprintf("-free-ports=%t", o.free), "-drain-delay", o.drain.String(), fmt.Sprintf("-references=%d", o.references),
		fmt.Sprintf("-grouped=%t", o.grouped))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("it was stopped")
		}
		ended <- err
	}()
	return ended, nil
}

// follow copies a growing file from offset until done returns true, and then the rest of
// it.
func follow(ctx context.Context, path string, offset int64, out io.Writer, done func() (bool, error)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		finished, doneErr := done()
		if _, err := io.Copy(out, file); err != nil {
			return fmt.Errorf("follow the log: %w", err)
		}
		if finished || doneErr != nil {
			return doneErr
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("no longer waiting; the fleet keeps starting: fleet down stops it")
		}
	}
}
