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
	// The time for each way of stopping a server.
	fastStop      = 5 * time.Second
	immediateStop = 10 * time.Second
	// startTimeout covers crash recovery of a durable server.
	startTimeout = 2 * time.Minute
	readyPoll    = 20 * time.Millisecond
	// maxSocketPath is the longest path that fits in sockaddr_un on the tightest system
	// (104 bytes on darwin) with its terminating zero.
	maxSocketPath = 103
)

// Config is where and how a private server runs.
type Config struct {
	// Dir holds everything of the server. A durable server needs it. For a test server,
	// empty means a new folder, in TMPDIR or in memory, and a given folder must be empty.
	Dir string
	// Bin is the folder of initdb and postgres; empty means FindBinaries().
	Bin string
	// Durable keeps the data between starts, with fsync on and the password in a file of
	// mode 0600. Otherwise the server is for tests: the password is in memory alone,
	// fsync is off, and the folder is deleted on Stop and when our process dies.
	Durable bool
	// FsyncOff leaves the flushing of a durable server's files to the kernel. What is
	// committed outlives the end of our process and of the server, but not a loss of
	// power. A start after a crash is faster, because it flushes no files either.
	FsyncOff bool
	// Port on 127.0.0.1; 0 means a free one. A durable server keeps its port at the next
	// start if that is still free.
	Port int
	// Log gets unexpected events; nil means no log.
	Log *slog.Logger
	// Progress gets the steps that take more than a second; nil is allowed.
	Progress func(string)
}

// Server is a PostgreSQL server that runs as a child of this process, listens on
// 127.0.0.1 only and requires a password.
type Server struct {
	cfg      Config
	account  account
	password string
	port     int
	socket   string // folder of the Unix socket; empty where there is none

	lock    *os.File // held while a durable server is ours
	guard   *guard   // nil for a durable server
	process *os.Process
	done    chan struct{} // closed after the server has ended; exit is set
	exit    error
	stop    sync.Once
	// stopping is closed when Stop begins. An end of the server before that is
	// unexpected.
	stopping chan struct{}
}

// Start starts a server and returns when it takes connections. One process at a time may
// use a durable folder. A server that was left behind by a killed process is stopped
// first, and what it had committed is there.
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

// SocketURL is URL over the server's Unix socket, which costs less than TCP. It is URL
// where the path of the folder is too long for a socket.
func (c *Server) SocketURL() string {
	if c.socket == "" {
		return c.URL()
	}
	where := url.Values{"host": {c.socket}, "port": {strconv.Itoa(c.port)}, "sslmode": {"disable"}}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, c.password), Path: "/postgres", RawQuery: where.Encode(),
	}
	return u.String()
}

// Done is closed when the server has ended, by Stop or by itself.
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

// discard gives up everything except a durable server's data.
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

// watch reaps the server and logs an end that Stop did not cause.
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
