package pgserver_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg/pgserver"
	"svc.internal/pkg/pgtest"
)

// patience bounds every wait for something that must happen.
const patience = 90 * time.Second

// reachableDir is a folder that the server's account can enter: those of
// t.TempDir are private to us.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgdur-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func startDurable(t *testing.T, dir string) *pgserver.Server {
	t.Helper()
	c, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir, Durable: true})
	if errors.Is(err, pgserver.ErrNoBinaries) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func run(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(got, ",")
}

func awaitEnd(t *testing.T, c *pgserver.Server) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the server did not end")
	}
}

func postmaster(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestDurableClusterKeepsWhatWasCommitted(t *testing.T) {
	dir := reachableDir(t)
	c := startDurable(t, dir)
	url := c.URL()
	run(t, url, "CREATE TABLE kept (n text)")
	run(t, url, "INSERT INTO kept VALUES ('stopped')")

	t.Run("it is reached with its password only", func(t *testing.T) {
		if conn, err := pgx.Connect(t.Context(), strings.Replace(url, "svc:", "svc:x", 1)); err == nil {
			_ = conn.Close(t.Context())
			t.Error("a wrong password was accepted")
		}
		info, err := os.Stat(filepath.Join(dir, "password"))
		if err != nil {
			t.Errorf("password file: got the error %v, want none", err)
		} else if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("password file: info.Mode().Perm(): got %v, want 0o600", got)
		}
		if got := run(t, url,
			"SELECT current_setting('fsync') || current_setting('listen_addresses')"); got != "on127.0.0.1" {
			t.Errorf(`fsync and listen_addresses: got %q, want "on127.0.0.1"`, got)
		}
	})

	t.Run("its socket is another way to the same tables", func(t *testing.T) {
		if got := run(t, c.SocketURL(), "SELECT coalesce(inet_server_addr()::text, 'socket') || n FROM kept"); got !=
			"socketstopped" {
			t.Errorf("address and row: got %q, want %q", got, "socketstopped")
		}
	})

	t.Run("a second process is refused", func(t *testing.T) {
		second, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir, Durable: true})
		if err == nil {
			_ = second.Stop()
			t.Fatal("two processes share one folder")
		}
		run(t, url, "SELECT 'still there'")
	})

	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	c = startDurable(t, dir)
	if c.URL() != url {
		t.Error("port or password changed over a restart")
	}
	if got := run(t, url, "SELECT n FROM kept"); got != "stopped" {
		t.Fatalf(`after a stop: got %q, want "stopped"`, got)
	}

	run(t, url, "INSERT INTO kept VALUES ('killed')")
	if err := syscall.Kill(postmaster(t, dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, c)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	c = startDurable(t, dir)
	if got := run(t, c.URL(), "SELECT n FROM kept ORDER BY n"); got != "killed,stopped" {
		t.Fatalf(`after kill -9: got %q, want "killed,stopped"`, got)
	}
}

func TestADurableServerWithoutFsyncKeepsOverAKillWhatWasCommitted(t *testing.T) {
	cfg := pgserver.Config{Dir: reachableDir(t), Durable: true, FsyncOff: true}
	c, err := pgserver.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.URL(), "CREATE TABLE kept (n text)")
	run(t, c.URL(), "INSERT INTO kept VALUES ('killed')")
	if err := syscall.Kill(postmaster(t, cfg.Dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, c)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if c, err = pgserver.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if got := run(t, c.URL(), "SELECT n || current_setting('fsync') FROM kept"); got != "killedoff" {
		t.Errorf(`what was kept, and fsync: got %q, want "killedoff"`, got)
	}
}

func TestServerOfADeadParentIsStoppedFirst(t *testing.T) {
	dir := reachableDir(t)
	c := startDurable(t, dir)
	run(t, c.URL(), "CREATE TABLE kept (n text)")
	old := postmaster(t, dir)
	if err := c.LetGo(); err != nil { // what the kernel does when we are killed
		t.Fatal(err)
	}
	next := startDurable(t, dir)
	awaitEnd(t, c)
	if now := postmaster(t, dir); now == old {
		t.Error("the old server still runs")
	}
	run(t, next.URL(), "SELECT n FROM kept")
}

func TestAChildThatIsJustStartedDoesNotKeepTheFolder(t *testing.T) {
	dir := reachableDir(t)
	c := startDurable(t, dir)
	child, err := c.CopyLock()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(child) }()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	run(t, startDurable(t, dir).URL(), "SELECT 'up'")
}

func TestPidFileOfAnotherProgramIsNotTrusted(t *testing.T) {
	dir := reachableDir(t)
	if err := startDurable(t, dir).Stop(); err != nil {
		t.Fatal(err)
	}
	// Our own pid: alive, not postgres, and not to be signalled.
	file := filepath.Join(dir, "data", "postmaster.pid")
	text := strconv.Itoa(os.Getpid()) + "\n" + filepath.Join(dir, "data") + "\n1\n1\n\n127.0.0.1\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, startDurable(t, dir).URL(), "SELECT 'up'")
}

func TestTestClusterLeavesNothingBehind(t *testing.T) {
	var steps []string
	dir := filepath.Join(reachableDir(t), "server")
	c, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir, Progress: func(s string) { steps = append(steps, s) }})
	if errors.Is(err, pgserver.ErrNoBinaries) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	pid := postmaster(t, dir)
	if len(steps) == 0 {
		t.Error("initdb was not reported")
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking for the folder: got the error %v, want %v", err, os.ErrNotExist)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("looking for the server: got the error %v, want %v", err, syscall.ESRCH)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestTestClusterLetsNobodyInWithoutItsPassword(t *testing.T) {
	url := pgtest.Server(t)
	if os.Getenv(pgtest.EnvURL) != "" {
		t.Skip("the server is somebody else's")
	}
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var socket string
	if socket = run(t, url, "SHOW unix_socket_directories"); socket == "" {
		t.Fatal("got no socket folder, want one to try")
	}
	for _, host := range []string{cfg.Host, socket} {
		for _, password := range []string{"", "svc"} {
			tried := cfg.Copy()
			tried.Host, tried.Password, tried.Fallbacks = host, password, nil
			conn, err := pgx.ConnectConfig(t.Context(), tried)
			if err == nil {
				_ = conn.Close(t.Context())
				t.Errorf("%s: got a session with the password %q, want a refusal", host, password)
			}
		}
	}
	if got := run(t, url, "SELECT DISTINCT auth_method FROM pg_hba_file_rules"); got != "scram-sha-256" {
		t.Errorf("got the methods %s, want scram-sha-256 alone", got)
	}
}

func TestTestClusterDiesWithItsParent(t *testing.T) {
	dir := filepath.Join(reachableDir(t), "server")
	c, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	if errors.Is(err, pgserver.ErrNoBinaries) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.LetGo(); err != nil { // what the kernel does when we are killed
		t.Fatal(err)
	}
	awaitEnd(t, c)
}

func TestStartFailureShowsTheServersLog(t *testing.T) {
	dir := reachableDir(t)
	if err := startDurable(t, dir).Stop(); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "data", "postgresql.conf")
	if err := os.WriteFile(conf, []byte("no_such_setting = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir, Durable: true})
	if err == nil {
		_ = c.Stop()
		t.Fatal("started on a broken configuration")
	}
	if !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf(`the server's own words: got the error %q, want "no_such_setting" in it`, err)
	}
}

func TestPrivateParentFolderIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as somebody else")
	}
	parent := reachableDir(t)
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := pgserver.Start(t.Context(), pgserver.Config{Dir: filepath.Join(parent, "db"), Durable: true})
	if err == nil {
		_ = c.Stop()
		t.Fatal("started below a private folder")
	}
	if !strings.Contains(err.Error(), parent+" (mode 0700)") {
		t.Errorf("naming the folder: got the error %q, want %q in it", err, parent+" (mode 0700)")
	}
}

func TestTheFolderOfATestServerIsWhereItCanBe(t *testing.T) {
	set, err := os.MkdirTemp("/tmp", "set-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(set); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(set, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, tmpdir, memory string
		enough               uint64
		want                 string
	}{
		{"TMPDIR is set", set, "/dev/shm", 0, set},
		{"TMPDIR is missing", "/no/such", set, 0, "/tmp"},
		{"memory has room", "", set, 1, set},
		{"memory has too little room", "", set, math.MaxUint64, "/tmp"},
		{"there is no memory", "", "/no/such", 1, "/tmp"},
	} {
		t.Setenv("TMPDIR", c.tmpdir)
		dir, err := pgserver.MakeTemp(c.memory, c.enough)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", c.name, err)
			continue
		}
		if got := filepath.Dir(dir); got != c.want {
			t.Errorf("%s: got a folder in %s, want one in %s", c.name, got, c.want)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkStatement measures one small statement on a connection.
func BenchmarkStatement(b *testing.B) {
	server, err := pgserver.Start(b.Context(), pgserver.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Stop() }() // its folder is a test's
	for way, url := range map[string]string{"tcp": server.URL(), "socket": server.SocketURL()} {
		b.Run(way, func(b *testing.B) {
			conn, err := pgx.Connect(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(b.Context())) }()
			for b.Loop() {
				if _, err := conn.Exec(b.Context(), "SELECT $1::int", 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
