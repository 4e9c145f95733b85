package trial

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone"
	"svc.internal/services/standalone/localdata"
	"svc.internal/services/standalone/logins"
)

// Start runs a whole marketplace in this process, on free ports, a database of its own
// and an empty data directory, until the test ends. The variables in environ, as
// NAME=value, are added.
func Start(t testing.TB, environ ...string) *Market {
	t.Helper()
	return StartIn(t, t.TempDir(), append([]string{"DATABASE_URL=" + migrated.URL(t)}, environ...)...)
}

// Migrated is the URL of a database of its own with the tables of all services, for tests
// that change it before they start a marketplace on it: DATABASE_URL of StartIn.
func Migrated(t testing.TB) string {
	t.Helper()
	return migrated.URL(t)
}

// migrated has the tables of all services, because to migrate takes a second of each
// start. How an empty database is migrated is tested by tests with StartIn.
var migrated = pgtest.Template{Prepare: func(ctx context.Context, url string) (err error) {
	dir, err := os.MkdirTemp("", "migrated-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data, err := localdata.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	suffix, err := data.DatabaseSuffix()
	if err != nil {
		return err
	}
	databases, err := logins.Make(ctx, data, url, suffix, logins.Services())
	if err != nil {
		return err
	}
	return logins.Migrate(ctx, databases)
}}

// StartIn is Start on a data directory and, unless environ says otherwise, the
// private PostgreSQL in it.
func StartIn(t testing.TB, dir string, environ ...string) *Market {
	t.Helper()
	bootstrap := strings.Repeat("bootstrap", 4) // of the length that a token needs
	run := runStandalone(t, "", append([]string{
		"SVC_HTTP_ADDR=127.0.0.1:0", "SVC_OPERATOR_ADDR=127.0.0.1:0", "SVC_WS_ADDR=127.0.0.1:0", "SVC_DATA_DIR=" + dir,
		// Nobody is verified but where a test asks for it.
		"SVC_VERIFIER_DEVELOPMENT=true", "SVC_VERIFIER_PROBES=false", "SVC_VERIFIER_BENCHMARKS_WAIVED=true",
		// An Ollama that happens to run here must not answer a test.
		"OLLAMA_HOST=127.0.0.1:1",
		"SVC_ADMIN_TOKENS=trial:" + bootstrap,
	}, environ...))
	run.waitReady(t)
	return &Market{Env: ReadEnv(t, filepath.Join(dir, "demo.env")), stop: run.stop, wait: run.wait, output: run.out,
		log: run.log, staff: &staff{bootstrap: bootstrap}}
}

// StartPart runs a subset of the services in this process, without waiting for it, until
// the test ends. Output's Ready signals when it is running.
func StartPart(t testing.TB, services string, environ ...string) *Output {
	t.Helper()
	return runStandalone(t, services, append([]string{"SVC_DATA_DIR=" + filepath.Join(t.TempDir(), "data")},
		environ...)).out
}

// process is a standalone that runs in this process.
type process struct {
	out, log *Output
	cancel   context.CancelFunc
	// done is closed once it has ended, with err.
	done chan struct{}
	err  error
	// told is set when a test has taken the result for itself.
	told atomic.Bool
}

func runStandalone(t testing.TB, services string, environ []string) *process {
	t.Helper()
	cfg, err := standalone.Load(services, "", environ)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{out: NewOutput(), log: NewOutput(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = standalone.Run(ctx, cfg, standalone.Streams{Out: p.out, Log: p.log})
	}()
	t.Cleanup(func() {
		p.cancel()
		<-p.done
		if p.err != nil && !p.told.Load() {
			t.Errorf("the marketplace %s ended with %v", services, p.err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", Tail(p.log.Text(), 12_000))
		}
	})
	return p
}

// stop ends it.
func (p *process) stop() error {
	p.cancel()
	return p.wait()
}

// wait returns when it has ended, with its result.
func (p *process) wait() error {
	<-p.done
	p.told.Store(true)
	return p.err
}

func (p *process) waitReady(t testing.TB) {
	t.Helper()
	select {
	case <-p.out.Ready():
	case <-p.done:
		t.Fatalf("the marketplace did not start:\n%s", p.out.Text())
	case <-time.After(Patience):
		t.Fatalf("the marketplace is not ready after %v:\n%s", Patience, p.out.Text())
	}
}

// ReadEnv reads a file of the form of demo.env.
func ReadEnv(t testing.TB, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path) //nolint:gosec // the file of a test
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	env := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env
}

// Dir is a data directory that is removed with the test, together with the private
// PostgreSQL in it. Under root, PostgreSQL runs as a user who cannot enter there, and
// lives elsewhere.
func Dir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := localdata.RemovePostgres(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// FreeAddress is an address on loopback that nobody listens on now. Its port is below the
// ports that systems give to connections by themselves, because one of these may be taken
// before it is listened on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := "127.0.0.1:" + strconv.Itoa(20_000+rand.IntN(12_000)) //nolint:gosec // no secret
		if lis, err := net.Listen("tcp", address); err == nil {
			_ = lis.Close()
			return address
		}
	}
	t.Fatal("a hundred ports are in use")
	return ""
}
