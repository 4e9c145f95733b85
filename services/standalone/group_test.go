package standalone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/node"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/standalone/localdata"
	"svc.internal/services/standalone/logins"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// groupFile is the file of a pod with several services, in the form that the chart has.
const groupFile = `
admin_addr: 127.0.0.1:0
grpc_addr: 127.0.0.1:0
data_dir: %[1]s/data
demo: "off"
log: {format: json, level: info}
database_url: file:%[1]s/url
nats_url: %[2]s
nats_secret: the secret of the test
peers:
  {billing-ledger: ["127.0.0.1:1"], catalog: ["127.0.0.1:1"], settlement: ["127.0.0.1:1"], verifier: ["127.0.0.1:1"]}
gateway: {http_addr: "127.0.0.1:0", operator_addr: "127.0.0.1:0"}
hub: {ws_addr: "127.0.0.1:0", journal_dir: %[1]s/journal, pepper: %[3]s}
router: {settle_for: 2s}
`

// hubLogin is the login of a migrated hub, which reaches its own tables alone.
func hubLogin(t *testing.T) string {
	t.Helper()
	dir, err := localdata.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() //nolint:errcheck // nothing was written that counts
	suffix, err := dir.DatabaseSuffix()
	if err != nil {
		t.Fatal(err)
	}
	made, err := logins.Make(t.Context(), dir, pgtest.URL(t), suffix, []string{node.ProviderHub})
	if err != nil {
		t.Fatal(err)
	}
	if err := logins.Migrate(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	return made[node.ProviderHub].URL
}

// loadGroup reads the settings of a pod with several services, whose files are below dir.
func loadGroup(t *testing.T, dir string) Config {
	t.Helper()
	nats, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Secret: "the secret of the test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Stop)
	file := filepath.Join(dir, "config.yaml")
	for path, text := range map[string]string{
		filepath.Join(dir, "url"): hubLogin(t),
		file:                      fmt.Sprintf(groupFile, dir, nats.URL(), strings.Repeat("5a", 32)),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := Load(strings.Join(grouped, ","), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// startGroup runs a pod's process and returns the address of its metrics, and what ends the process.
func startGroup(t *testing.T, cfg Config, out io.Writer) (admin string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	lines, log := io.Pipe()
	ended, started := make(chan error, 1), make(chan string, 1)
	go func() {
		err := Run(ctx, cfg, Streams{Out: out, Log: log})
		ended <- err
		_ = log.CloseWithError(io.EOF) // a pipe's end never fails
	}()
	go func() {
		for scanner := bufio.NewScanner(lines); scanner.Scan(); {
			var line struct{ Msg, Admin string }
			if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "starting" {
				started <- line.Admin
			}
		}
	}()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the process ended with %v, want no error", err)
		}
	}
	select {
	case admin = <-started:
	case err := <-ended:
		cancel()
		t.Fatalf("the process ended with %v, want it to start", err)
	}
	return admin, stop
}

// A cluster gives a process its secrets. A token that the process made for itself would open the operators' API to
// whoever reads the volume.
func TestAGroupOfServicesKeepsNoSecretOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	cfg := loadGroup(t, dir)
	var out bytes.Buffer
	admin, stop := startGroup(t, cfg, &out)
	missing := ""
	err := poll(t.Context(), time.Minute, func(context.Context) error {
		resp, err := http.Get("http://" + admin + "/readyz") //nolint:noctx // it answers within seconds
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		missing = string(text)
		return errors.Join(err, resp.Body.Close())
	})
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if want := "billing-ledger has not been reached"; !strings.Contains(missing, want) {
		t.Errorf("what the process waits for: got %q, want %q in it", missing, want)
	}
	if out.Len() > 0 {
		t.Errorf("lines beside the log: got %q, want none", &out)
	}
	if got, want := filesBelow(t, filepath.Join(dir, "data")), []string{"lock"}; !slices.Equal(got, want) {
		t.Errorf("files of the data directory: got %v, want %v", got, want)
	}
	if got := filesBelow(t, filepath.Join(dir, "journal")); len(got) == 0 {
		t.Error("files of the journal: got none, want some")
	}
}

func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, dir+string(filepath.Separator)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAGatewayOfAGroupHasTheDefaultsOfItsOwnProgram(t *testing.T) {
	cfg := DefaultConfig()
	if err := cfg.Select(strings.Join(grouped, ",")); err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.Gateway.SignUpsPerHour, 5; got != want {
		t.Errorf("sign-ups an hour: got %d, want %d", got, want)
	}
	if got := load(t, "").Gateway.SignUpsPerHour; got != signUpsPerHour {
		t.Errorf("sign-ups an hour of a whole marketplace: got %d, want %d", got, signUpsPerHour)
	}
}
