// Package pgserver runs a private PostgreSQL server from the machine's own
// binaries, for `make run` and for tests. Services link package pg alone.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	superuser = "svc"
	// Times given to each way of asking a server to end.
	fastStop      = 5 * time.Second
	immediateStop = 10 * time.Second
	// startTimeout covers crash recovery of a durable server.
	startTimeout = 2 * time.Minute
	readyPoll    = 20 * time.Millisecond
	// maxSocketPath is what fits in sockaddr_un on the tightest system (104
	// bytes on darwin) with its terminating zero.
	maxSocketPath = 103
)

// Config says where and how a private server runs.
type Config struct {
	// Dir holds everything of the server. It is required when Durable; else
	// empty means a new folder for temporary files, and a given one must not
	// hold anything yet.
	Dir string
	// Bin is the folder of initdb and postgres; empty means FindBinaries().
	Bin string
	// Durable keeps the data between starts: fsync on, the password in a 0600
	// file. Otherwise the server is for tests: the password in memory alone, no
	// fsync, the folder deleted on Stop and when our process dies.
	Durable bool
	// Port on 127.0.0.1; 0 means a free one, and for a durable server the
	// same one again at the next start if it is still free.
	Port int
	// Log hears of events that nobody asked for; nil means no log.
	Log *slog.Logger
	// Progress hears of steps that take more than a second; nil is allowed.
	Progress func(string)
}

// Server is a PostgreSQL server that runs as a child of this process, listens
// on 127.0.0.1 only and lets nobody in without a password.
type Server struct {
	cfg      Config
	account  account
	password string
	port     int

	lock    *os.File // held while a durable server is ours
	guard   *guard   // nil for a durable server
	process *os.Process
	done    chan struct{} // closed after the server has ended; exit is set
	exit    error
	stop    sync.Once
	// stopping is closed when Stop begins; an end before it is unexpected.
	stopping chan struct{}
}

// Start starts a server and returns when it takes connections. A durable
// folder may be used by one process at a time; a server left behind by a
// process that was killed is stopped first, and what it had committed is there.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	c, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.discard())
	}
	return c, nil
}

func newServer(cfg Config) (*Server, error) {
	if cfg.Durable && cfg.Dir == "" {
		return nil, errors.New("a durable PostgreSQL server needs a folder for its data")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if cfg.Bin == "" {
		bin, err := FindBinaries()
		if err != nil {
			return nil, err
		}
		cfg.Bin = bin
	}
	acc, err := serverAccount()
	if err != nil {
		return nil, err
	}
	c := &Server{cfg: cfg, account: acc, stopping: make(chan struct{})}
	if err := c.makeDir(); err != nil {
		return nil, fmt.Errorf("prepare a folder for PostgreSQL: %w", err)
	}
	return c, nil
}

// URL is the superuser's connection string. It holds the password: do not log
// it.
func (c *Server) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, c.password),
		Host: "127.0.0.1:" + strconv.Itoa(c.port), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Done is closed when the server has ended, by Stop or on its own.
func (c *Server) Done() <-chan struct{} { return c.done }

// Stop ends the server: fast shutdown, after 5 s an immediate one (which costs
// a recovery at the next start and no data). A test server's folder is deleted.
// Further calls do nothing.
func (c *Server) Stop() error {
	var err error
	c.stop.Do(func() {
		close(c.stopping)
		err = errors.Join(c.terminate(), c.discard())
	})
	return err
}

func (c *Server) terminate() error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, fastStop}, {syscall.SIGQUIT, immediateStop}} {
		if err := c.process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop PostgreSQL: %w", err)
		}
		if c.ended(step.wait) {
			return nil
		}
	}
	_ = c.process.Kill() // it may have ended meanwhile
	<-c.done
	return errors.New("stop PostgreSQL: had to be killed")
}

func (c *Server) ended(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// discard lets go of everything but a durable server's data.
func (c *Server) discard() error {
	var err error
	if c.guard != nil {
		err = c.guard.dismiss()
	}
	if c.lock != nil {
		err = errors.Join(err, release(c.lock))
	}
	if !c.cfg.Durable {
		err = errors.Join(err, os.RemoveAll(c.cfg.Dir))
	}
	return err
}

// watch reaps the server and tells of an end that nobody asked for.
func (c *Server) watch(cmd *exec.Cmd) {
	c.exit = cmd.Wait()
	close(c.done)
}

func (c *Server) reportUnexpectedEnd() {
	<-c.done
	select {
	case <-c.stopping:
	default:
		c.cfg.Log.Error("PostgreSQL ended on its own", "exit", c.exit, "log", c.logTail())
	}
}

func (c *Server) path(name string) string { return filepath.Join(c.cfg.Dir, name) }
