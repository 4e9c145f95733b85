package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"svc.internal/pkg/config"
	"svc.internal/services/standalone"
)

// ownDatabase is a data directory for a private PostgreSQL. As root, that runs
// as a user who cannot enter there, and the database goes elsewhere: it is
// removed with the test.
func ownDatabase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if target, err := os.Readlink(filepath.Join(dir, "postgres")); err == nil {
			if err := os.RemoveAll(target); err != nil {
				t.Error(err)
			}
		}
	})
	return dir
}

func TestASecondStartFindsWhatTheFirstLeft(t *testing.T) {
	dir := ownDatabase(t)
	m := startIn(t, dir) // on a PostgreSQL of its own
	status, header, body := m.call(t, http.MethodPost, "/v1/chat/completions", m.key(), chat(m.env["SVC_MODEL"], `,"max_tokens":8`))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	id := header.Get("X-Svc-Request-ID")
	receipt := m.receipt(t, m.key(), id)
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	again := startIn(t, dir)
	if again.key() != m.key() || again.env["SVC_PROVIDER_KEY"] != m.env["SVC_PROVIDER_KEY"] || again.env["SVC_ADMIN_TOKEN"] != m.env["SVC_ADMIN_TOKEN"] {
		t.Error("the second start has other keys")
	}
	if later := again.receipt(t, again.key(), id); later["cost_usd_str"] != receipt["cost_usd_str"] || later["status"] != "settled" {
		t.Errorf("the receipt was %v and is %v", receipt, later)
	}
	if status, _, body := again.call(t, http.MethodPost, "/v1/chat/completions", again.key(), chat(again.env["SVC_MODEL"], `,"max_tokens":8`)); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	again.balanced(t)
}

func TestTheProcessEndsWithItsPrivateDatabase(t *testing.T) {
	dir := ownDatabase(t)
	cfg, err := config.Load[standalone.Config]([]string{"SVC_HTTP_ADDR=127.0.0.1:0", "SVC_WS_ADDR=127.0.0.1:0", "SVC_DATA_DIR=" + dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Select(""); err != nil {
		t.Fatal(err)
	}
	out := &watched{ready: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- standalone.Run(t.Context(), cfg, standalone.Streams{Out: out, Log: io.Discard})
	}()
	<-out.ready
	pidFile, err := os.ReadFile(filepath.Join(dir, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(pidFile), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "PostgreSQL") {
		t.Errorf("it ended with %v", err)
	}
}

func TestTwoInstancesLiveSideBySide(t *testing.T) {
	first, second := start(t), start(t)
	for _, m := range []*market{first, second} {
		if status, _, body := m.call(t, http.MethodPost, "/v1/chat/completions", m.key(), chat(m.env["SVC_MODEL"], `,"max_tokens":8`)); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
	}
	if status, _, _ := first.call(t, http.MethodPost, "/v1/chat/completions", second.key(), chat(first.env["SVC_MODEL"], "")); status != http.StatusUnauthorized {
		t.Errorf("one instance's key is worth %d at the other", status)
	}
}

func TestThePrintedCurlStreamsAnAnswer(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("curl is not installed")
		}
		t.Skip("curl is not installed")
	}
	m := start(t)
	command := regexp.MustCompile(`(?s)\ncurl .*?'\n`).FindString(m.out.text())
	if command == "" {
		t.Fatalf("no curl line in:\n%s", m.out.text())
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-c", command).Output()
	if err != nil || !strings.Contains(string(out), "data: {") || !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, fact := range []string{m.base() + "/v1", m.key(), "Answered by"} {
		if !strings.Contains(m.out.text(), fact) {
			t.Errorf("the summary does not show %s", fact)
		}
	}
}
