package pgserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
)

const (
	// startTries bounds the attempts after a lost race for a port or while
	// the last processes of a killed server still hold its shared memory.
	startTries  = 20
	startPause  = 250 * time.Millisecond
	logTailSize = 2 << 10
	// closeTimeout bounds the end of a connection.
	closeTimeout = 5 * time.Second
	// memoryDir is a file system in memory on Linux. minMemory is what must be free there:
	// several test servers run at once, and each may keep 256 MiB of write-ahead log.
	memoryDir = "/dev/shm"
	minMemory = 4 << 30
	// maxLogSize is how much server log is carried over a start.
	maxLogSize = 10 << 20
)

// makeDir creates the server's files in the folder and takes the lock on a durable
// folder. The folder itself stays ours; data and sock belong to the account.
func (c *Server) makeDir() error {
	if c.cfg.Dir == "" {
		dir, err := makeTemp(c.account, memoryDir, minMemory)
		if err != nil {
			return err
		}
		c.cfg.Dir = dir
	}
	dir, err := filepath.Abs(c.cfg.Dir)
	if err != nil {
		return err
	}
	c.cfg.Dir = dir
	if err := MakeReachable(dir); err != nil {
		return err
	}
	if c.account.switched {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as above
			return err
		}
	}
	if err := c.account.checkReach(dir); err != nil {
		return err
	}
	if !c.cfg.Durable {
		return c.refuseOccupied()
	}
	return c.takeLock()
}

// refuseOccupied refuses a folder that holds other files, because Stop would delete them.
func (c *Server) refuseOccupied() error {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty, and the folder of a test server is deleted at its end", c.cfg.Dir)
	}
	return nil
}

// makeTemp makes the folder of a test server: in TMPDIR if that is set, else in memory if
// at least enough bytes are free there, because on a disk the file system takes a quarter
// of a test server's CPU time. Where neither can be used, because the account cannot enter
// it for instance (a private 0700 TMPDIR), the folder is in /tmp.
func makeTemp(a account, memory string, enough uint64) (string, error) {
	base := "/tmp"
	switch {
	case os.Getenv("TMPDIR") != "":
		base = os.TempDir()
	case room(memory) >= enough:
		base = memory
	}
	if a.checkReach(base) == nil {
		if dir, err := os.MkdirTemp(base, "svcpg-"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("/tmp", "svcpg-")
}

// room returns the free bytes of the file system of a folder, and 0 when they are
// unknown.
func room(dir string) uint64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}

// takeLock keeps two of our processes from stopping each other's server. The kernel
// releases the lock when we die, however we die.
func (c *Server) takeLock() error {
	lock, err := os.OpenFile(c.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close() // nothing was written
		return fmt.Errorf("the database in %s is in use by another process: %w", c.cfg.Dir, err)
	}
	c.lock = lock
	return nil
}

// release gives a lock up at once. Closing alone leaves it with a copy of the file in a
// child that is just being started, until the child executes its program.
func release(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
}

func (c *Server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.stopPrevious(ctx); err != nil {
		return err
	}
	if err := c.initialize(ctx); err != nil {
		return err
	}
	if err := c.rotateLog(); err != nil {
		return fmt.Errorf("open the PostgreSQL log: %w", err)
	}
	for try := 1; ; try++ {
		err := c.startOnce(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, errTryAgain) || try == startTries {
			return err
		}
		if clock.Sleep(ctx, startPause) != nil {
			return err
		}
	}
	go c.reportUnexpectedEnd()
	return c.rememberPort()
}

// initialize runs initdb unless there is data already. It works in a folder of another
// name, so that an interrupted run is never taken for a database.
func (c *Server) initialize(ctx context.Context) error {
	if err := c.loadPassword(); err != nil {
		return err
	}
	if _, err := os.Stat(c.path("data")); err == nil {
		return nil
	}
	c.cfg.Progress("creating a PostgreSQL database in " + c.cfg.Dir)
	work := c.path("data.new")
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("remove an unfinished database: %w", err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	if err := c.account.give(work, 0o700); err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	if err := c.runInitdb(ctx, work); err != nil {
		return err
	}
	if err := os.Rename(work, c.path("data")); err != nil {
		return fmt.Errorf("put the new database in place: %w", err)
	}
	return nil
}

func (c *Server) runInitdb(ctx context.Context, dir string) error {
	file, password := c.path("password.initdb"), c.password
	if !c.cfg.Durable {
		// Rounds protect passwords that people chose. This one is random, and tests
		// connect thousands of times: 4,096 rounds would take a quarter of each
		// connection's time.
		password = pg.Verifier(password, 1)
	}
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("pass the password to initdb: %w", err)
	}
	defer func() { _ = os.Remove(file) }() // at worst a second copy of the 0600 password file
	if err := c.account.give(file, 0o600); err != nil {
		return fmt.Errorf("pass the password to initdb: %w", err)
	}
	// Every other user of this machine can reach the port, and many can reach its socket.
	args := []string{"-D", dir, "-U", superuser, "-E", "UTF8", "--locale=C", "--no-instructions",
		"-A", "scram-sha-256", "--pwfile", file}
	if !c.cfg.Durable {
		args = append(args, "--no-sync")
	}
	var out bytes.Buffer
	cmd := c.account.command(c.cfg.Dir, filepath.Join(c.cfg.Bin, "initdb"), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run initdb: %w", err)
	}
	// The whole group, because initdb runs a postgres of its own.
	release := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer release()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, tail(out.Bytes()))
	}
	return nil
}

func (c *Server) loadPassword() error {
	if !c.cfg.Durable {
		c.password = rand.Text() // the server ends with us
		return nil
	}
	file := c.path("password")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(c.path("data")); err == nil {
			return fmt.Errorf("%s is missing while the data is there: restore it, or remove the folder %s", file, c.cfg.Dir)
		}
		text = []byte(rand.Text())
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the database password: %w", err)
	}
	c.password = strings.TrimSpace(string(text))
	return nil
}

// errTryAgain marks failures of a start that pass by themselves.
var errTryAgain = errors.New("try again")

func (c *Server) startOnce(ctx context.Context) error {
	if err := c.choosePort(); err != nil {
		return err
	}
	log, err := os.OpenFile(c.path("postgres.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the PostgreSQL log: %w", err)
	}
	defer log.Close()
	mark, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("open the PostgreSQL log: %w", err)
	}
	settings, err := c.settings()
	if err != nil {
		return err
	}
	cmd := c.account.command(c.cfg.Dir, filepath.Join(c.cfg.Bin, "postgres"), settings...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run postgres: %w", err)
	}
	c.process, c.done = cmd.Process, make(chan struct{})
	go c.watch(cmd)
	if !c.cfg.Durable {
		if c.guard, err = setGuard(cmd.Process.Pid, c.cfg.Dir); err != nil {
			return errors.Join(err, c.terminate())
		}
	}
	if err := c.waitReady(ctx); err != nil {
		return errors.Join(c.explain(err, mark), c.abandon())
	}
	return nil
}

// abandon undoes what startOnce began, so that another try finds none of it.
func (c *Server) abandon() error {
	err := c.terminate()
	if c.guard != nil {
		err = errors.Join(err, c.guard.dismiss())
		c.guard = nil
	}
	return err
}

// explain adds the server's log since mark to an error, and recognises failures that
// pass.
func (c *Server) explain(err error, mark int64) error {
	text, readErr := os.ReadFile(c.path("postgres.log"))
	if readErr != nil || int64(len(text)) < mark {
		return err
	}
	said := string(text[mark:])
	for _, passing := range []string{"pre-existing shared memory block", "could not bind",
		"could not create any TCP/IP sockets"} {
		if strings.Contains(said, passing) && (c.cfg.Port == 0 || !strings.Contains(passing, "could not")) {
			err = fmt.Errorf("%w: %w", errTryAgain, err)
			break
		}
	}
	return fmt.Errorf("%w; the server's log ends:\n%s", err, tail([]byte(said)))
}

func (c *Server) settings() ([]string, error) {
	set := []string{
		"listen_addresses=127.0.0.1", "max_connections=200", "timezone=UTC", "log_timezone=UTC",
		// The background writer and the WAL writer would wake five times a second. Checkpoints write the pages
		// of the first, and each commit flushes the log of the second.
		"bgwriter_lru_maxpages=0", "wal_writer_delay=1s",
		"password_encryption=scram-sha-256",
	}
	var err error
	if c.socket, err = c.socketDir(); err != nil {
		return nil, err
	}
	set = append(set, "unix_socket_directories="+c.socket)
	switch {
	case c.cfg.Durable && c.cfg.FsyncOff:
		set = append(set, "fsync=off")
	case c.cfg.Durable:
		set = append(set, "fsync=on")
	default:
		set = append(set, "fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"shared_buffers=32MB", "max_wal_size=256MB", "autovacuum_naptime=1h")
	}
	args := []string{"-D", c.path("data"), "-p", strconv.Itoa(c.port)}
	for _, s := range set {
		args = append(args, "-c", s)
	}
	return args, nil
}

// socketDir returns a folder for the server's Unix socket. It is empty (no socket) when
// the path would not fit in a socket address or would mean something else in the
// setting's list syntax.
func (c *Server) socketDir() (string, error) {
	dir := c.path("sock")
	if len(dir)+len("/.s.PGSQL.65535.lock") > maxSocketPath || strings.ContainsAny(dir, `,"@`) {
		return "", nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("create the socket folder: %w", err)
	}
	if err := c.account.give(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the socket folder: %w", err)
	}
	return dir, nil
}

// waitReady returns once the server takes connections, or as soon as it has ended.
func (c *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.done:
			cancel() // also a connection that nobody answers any more
		case <-ctx.Done():
		}
	}()
	for {
		conn, err := pgx.Connect(ctx, c.URL())
		if err == nil {
			return c.checkOurs(ctx, conn)
		}
		passing := ctx.Err() != nil || pg.IsUnavailable(err)
		if passing && clock.Sleep(ctx, readyPoll) == nil {
			continue
		}
		select {
		case <-c.done:
			return fmt.Errorf("postgres ended while starting: %w", exitReason(c.exit))
		default:
		}
		if !passing {
			return fmt.Errorf("connect to the PostgreSQL server just started: %w", err)
		}
		return fmt.Errorf("wait for PostgreSQL to take connections: %w", err)
	}
}

// checkOurs returns an error unless the server that answers on our port is the server
// that we started. Another server may have taken the port a moment before.
func (c *Server) checkOurs(ctx context.Context, conn *pgx.Conn) error {
	defer closeConn(ctx, conn)
	var dir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return fmt.Errorf("ask PostgreSQL for its data folder: %w", err)
	}
	if dir != c.path("data") {
		return fmt.Errorf("%w: another PostgreSQL server answers on port %d", errTryAgain, c.port)
	}
	return nil
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = conn.Close(ctx) // the server ends the session either way
}

func exitReason(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

func (c *Server) choosePort() error {
	if c.cfg.Port != 0 {
		c.port = c.cfg.Port
		return nil
	}
	if text, err := os.ReadFile(c.path("port")); err == nil && c.port == 0 {
		port, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && portIsFree(port) {
			c.port = port
			return nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	c.port = l.Addr().(*net.TCPAddr).Port
	return nil
}

func portIsFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func (c *Server) rememberPort() error {
	if !c.cfg.Durable {
		return nil
	}
	if err := os.WriteFile(c.path("port"), []byte(strconv.Itoa(c.port)+"\n"), 0o600); err != nil {
		return errors.Join(fmt.Errorf("remember the database port: %w", err), c.terminate())
	}
	return nil
}

func (c *Server) rotateLog() error {
	info, err := os.Stat(c.path("postgres.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Size() <= maxLogSize {
		return err
	}
	return os.Rename(c.path("postgres.log"), c.path("postgres.log.1"))
}

func (c *Server) logTail() string {
	text, err := os.ReadFile(c.path("postgres.log"))
	if err != nil {
		return ""
	}
	return tail(text)
}

func tail(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[max(0, len(text)-logTailSize):])
}
