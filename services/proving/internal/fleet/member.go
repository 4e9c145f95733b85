package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// member is one process of the fleet over all its starts.
type member struct {
	name string
	// launch starts the process.
	launch func(ctx context.Context) (*life, error)
	// probe returns nil once it is ready.
	probe func(ctx context.Context) error
	log   *logFile
	// args and environ are what launch gives to a program, once it is prepared.
	args, environ []string

	mu       sync.Mutex
	life     *life // the latest; nil before the first
	restarts int
}

// life is one process from its start to its end.
type life struct {
	pid   int
	start time.Time
	// done is closed when the process has ended; reason then says how.
	done   chan struct{}
	reason string
	// ask asks the process to end in order.
	ask func() error
	// expected is set once its end is wanted.
	expected bool
}

func (l *life) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// run starts a program in a process group of its own, so that a Ctrl-C in the
// terminal reaches the supervisor first.
func run(cmd *exec.Cmd, log *logFile) (*life, error) {
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l := &life{pid: cmd.Process.Pid, start: time.Now(), done: make(chan struct{})}
	l.ask = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	go func() {
		defer close(l.done)
		l.reason = "exit status 0"
		if err := cmd.Wait(); err != nil {
			l.reason = err.Error()
		}
	}()
	return l, nil
}

func (f *Fleet) member(name string) (*member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return nil, fmt.Errorf("fleet: there is no process %q", name)
	}
	return m, nil
}

// Launch starts a process that is not running and returns without waiting
// until it is ready.
func (f *Fleet) Launch(ctx context.Context, name string) error {
	m, err := f.member(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil && !m.life.ended() {
		return fmt.Errorf("fleet: %s runs already", name)
	}
	f.mu.Lock()
	stopping := f.stopping
	f.mu.Unlock()
	if stopping {
		return fmt.Errorf("start %s: the fleet is stopping", name)
	}
	l, err := m.launch(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	m.life = l
	f.wg.Go(func() { f.watch(m, l) })
	return f.guard.add(l.pid)
}

// Start starts a process that is not running and waits until it is ready.
func (f *Fleet) Start(ctx context.Context, name string) error {
	if err := f.Launch(ctx, name); err != nil {
		return err
	}
	return f.WaitReady(ctx, name)
}

// Kill kills a process (SIGKILL) and returns when it has ended. A process that is not
// running is left alone.
func (f *Fleet) Kill(name string) error {
	l, err := f.expectEnd(name)
	if err != nil || l == nil {
		return err
	}
	if err := syscall.Kill(l.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-l.done
	return nil
}

// Terminate asks a process to end (SIGTERM) and returns when it has ended. If ctx ends
// first, the process keeps ending.
func (f *Fleet) Terminate(ctx context.Context, name string) error {
	l, err := f.expectEnd(name)
	if err != nil || l == nil {
		return err
	}
	if err := l.ask(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", name, ctx.Err())
	}
}

// Restart ends a process in order and starts it again.
func (f *Fleet) Restart(ctx context.Context, name string) error {
	if err := f.Terminate(ctx, name); err != nil {
		return err
	}
	return f.Start(ctx, name)
}

// ExpectEnd says that somebody else will end a process, so that its end is no fault. It
// is started again with Launch or Start.
func (f *Fleet) ExpectEnd(name string) error {
	_, err := f.expectEnd(name)
	return err
}

// expectEnd returns nil for a process that does not run.
func (f *Fleet) expectEnd(name string) (*life, error) {
	m, err := f.member(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil || m.life.ended() {
		return nil, nil
	}
	m.life.expected = true
	return m.life, nil
}

// Pid is the process's id, 0 when it is not running.
func (f *Fleet) Pid(name string) int {
	m, err := f.member(name)
	if err != nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil || m.life.ended() {
		return 0
	}
	return m.life.pid
}

// WaitEnd returns when a process is not running.
func (f *Fleet) WaitEnd(ctx context.Context, name string) error {
	m, err := f.member(name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	l := m.life
	m.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", name, ctx.Err())
	}
}

// LogPath is the file of a process's output, over all its starts.
func (f *Fleet) LogPath(name string) string {
	if Program(name) == Postgres {
		return f.dir.Path("postgres", "postgres.log")
	}
	return f.dir.Path("log", name+".log")
}

// LogTail is the end of a process's output, at most n bytes.
func (f *Fleet) LogTail(name string, n int64) string { return tail(f.LogPath(name), n) }
