package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// down stops the supervisor and prints its output until it has ended.
func down(ctx context.Context, o options, out io.Writer) error {
	s, err := locate(o.dir)
	if errors.Is(err, errNotRunning) {
		fmt.Fprintln(out, "  The fleet is not running.")
		return nil
	}
	if err != nil {
		return err
	}
	var offset int64
	if info, err := os.Stat(logPath(o.dir)); err == nil {
		offset = info.Size()
	}
	if err := syscall.Kill(s.Pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the supervisor (pid %d): %w", s.Pid, err)
	}
	gone := func() (bool, error) {
		held, err := isHeld(o.dir)
		return !held, err
	}
	if err := follow(ctx, logPath(o.dir), offset, out, gone); err != nil {
		return err
	}
	fmt.Fprintln(out, "  The fleet is down.")
	return nil
}
