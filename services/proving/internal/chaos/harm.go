package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/proving/internal/chaos/plan"
	"svc.internal/services/proving/internal/fleet"
)

// refill is the pause between two fillings of a disk, for processes that were started
// meanwhile.
const refill = 50 * time.Millisecond

// victims are the processes that a fault hurts: all of the program, or the process with
// the pid, which stands at the moment, or, if no process has the pid, any one.
func (m *market) victims(f plan.Fault, pid int) []string {
	names := m.fleet.Replicas(f.Cell.Program)
	if f.All {
		return names
	}
	for i, name := range names {
		if m.fleet.Pid(name) == pid {
			return names[i : i+1]
		}
	}
	i := f.Pick % len(names)
	return names[i : i+1]
}

// kill kills processes, wipes their disks if the fault says so, and starts them again.
func (m *market) kill(ctx context.Context, f plan.Fault, names []string, release func()) error {
	for _, name := range names {
		if err := m.fleet.Kill(name); err != nil {
			return err
		}
	}
	if f.Cell.Kind == plan.Lose {
		if err := m.wipe(names); err != nil {
			return err
		}
	}
	release()
	if err := clock.Sleep(ctx, f.Away); err != nil {
		return err
	}
	return m.restore(ctx, names)
}

// wipe removes what processes keep on their disks.
func (m *market) wipe(names []string) error {
	for _, name := range names {
		var err error
		switch fleet.Program(name) {
		case fleet.Hub:
			err = os.RemoveAll(m.fleet.JournalDir(name))
		case fleet.Agent:
			err = os.RemoveAll(m.fleet.AgentDir(name))
		case fleet.NATS:
			err = m.fleet.WipeNATS()
		default:
			err = fmt.Errorf("%s has no disk to lose", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restore starts the processes that do not run and returns when all of them can serve.
func (m *market) restore(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, restoreBound)
	defer cancel()
	for _, name := range names {
		if m.fleet.Pid(name) != 0 {
			continue
		}
		if err := m.fleet.Launch(ctx, name); err != nil && m.fleet.Pid(name) == 0 {
			return err
		}
	}
	return m.fleet.WaitReady(ctx, names...)
}

// signal sends a signal to processes and their children, parents first, because a
// PostgreSQL is many processes.
func (m *market) signal(names []string, signal syscall.Signal) error {
	for _, name := range names {
		for _, pid := range family(m.fleet.Pid(name)) {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("signal %s: %w", name, err)
			}
		}
	}
	return nil
}

// stop makes processes stand still for a while.
func (m *market) stop(ctx context.Context, f plan.Fault, names []string, release func()) error {
	err := m.signal(names, syscall.SIGSTOP)
	release()
	if err == nil {
		err = clock.Sleep(ctx, f.Away)
	}
	if err := errors.Join(err, m.signal(names, syscall.SIGCONT)); err != nil {
		return err
	}
	return m.restore(ctx, names)
}

// fill keeps processes from writing to files for a while, including processes that the
// supervisor starts meanwhile. A process that cannot continue after that is started
// again, as an operator would do who has made room.
func (m *market) fill(ctx context.Context, f plan.Fault, names []string, release func()) error {
	err := m.limitFiles(names, true)
	release()
	ticker := time.NewTicker(refill)
	defer ticker.Stop()
	for until := time.Now().Add(f.Away); err == nil && time.Now().Before(until); {
		select {
		case <-ticker.C:
			err = m.limitFiles(names, true)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err := errors.Join(err, m.limitFiles(names, false)); err != nil {
		return err
	}
	if fleet.Program(names[0]) == fleet.NATS {
		for _, name := range names {
			if err := m.fleet.Kill(name); err != nil {
				return err
			}
		}
	}
	return m.restore(ctx, names)
}

func (m *market) limitFiles(names []string, full bool) error {
	for _, name := range names {
		for _, pid := range family(m.fleet.Pid(name)) {
			if err := limitFiles(pid, full); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("fill the disk of %s: %w", name, err)
			}
		}
	}
	return nil
}
