package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

func TestASecondStartFindsWhatTheFirstLeft(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	dir := trial.Dir(t)
	m := trial.StartIn(t, dir) // on a PostgreSQL of its own
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(), trial.Chat(m.Model(), `,"max_tokens":8`))
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200 (body is %s)", status, body)
	}
	id := header.Get(trial.RequestIDHeader)
	receipt := m.Receipt(t, m.Key(), id)
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	again := trial.StartIn(t, dir)
	switch {
	case again.Key() != m.Key():
		t.Errorf("the keys of the second start: again.Key(): got %q, want %q", again.Key(), m.Key())
	case again.Env["SVC_PROVIDER_KEY"] != m.Env["SVC_PROVIDER_KEY"]:
		t.Errorf(`the keys of the second start: again.Env["SVC_PROVIDER_KEY"]: got %q, want %q`,
			again.Env["SVC_PROVIDER_KEY"], m.Env["SVC_PROVIDER_KEY"])
	case again.Env["SVC_ADMIN_TOKEN"] != m.Env["SVC_ADMIN_TOKEN"]:
		t.Errorf(`the keys of the second start: again.Env["SVC_ADMIN_TOKEN"]: got %q, want %q`,
			again.Env["SVC_ADMIN_TOKEN"], m.Env["SVC_ADMIN_TOKEN"])
	}
	if later := again.Receipt(t, again.Key(), id); later["cost_usd_str"] != receipt["cost_usd_str"] {
		t.Errorf(`later["cost_usd_str"]: got %v, want %v`, later["cost_usd_str"], receipt["cost_usd_str"])
	} else if later["status"] != "settled" {
		t.Errorf(`later["status"]: got %v, want "settled"`, later["status"])
	}
	if status, _, body := again.Call(t, http.MethodPost, trial.ChatPath, again.Key(),
		trial.Chat(again.Model(), `,"max_tokens":8`)); status != http.StatusOK {
		t.Errorf("status: got %d, want 200 (body is %s)", status, body)
	}
	again.Balanced(t)
}

func TestTheProcessEndsWithItsPrivateDatabase(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	dir := trial.Dir(t)
	m := trial.StartIn(t, dir)
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
	if err := m.Wait(); err == nil {
		t.Error("it ended: got no error, want one")
	} else if !strings.Contains(err.Error(), "PostgreSQL") {
		t.Errorf(`it ended: got the error %q, want "PostgreSQL" in it`, err)
	}
}

func TestTwoInstancesLiveSideBySide(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	first, second := trial.Start(t), trial.Start(t)
	for _, m := range []*trial.Market{first, second} {
		if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(),
			trial.Chat(m.Model(), `,"max_tokens":8`)); status != http.StatusOK {
			t.Errorf("status: got %d, want 200 (body is %s)", status, body)
		}
	}
	if status, _, _ := first.Call(t, http.MethodPost, trial.ChatPath, second.Key(),
		trial.Chat(first.Model(), "")); status != http.StatusUnauthorized {
		t.Errorf("one instance's key is worth: got %d, want 401", status)
	}
}

func TestThePrintedCurlStreamsAnAnswer(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("curl is not installed")
		}
		t.Skip("curl is not installed")
	}
	m := trial.Start(t)
	command := regexp.MustCompile(`(?s)\ncurl .*?'\n`).FindString(m.Output())
	if command == "" {
		t.Fatalf("no curl line in:\n%s", m.Output())
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-c", command).Output()
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case !strings.Contains(string(out), "data: {"):
		t.Errorf(`out: got %q, want "data: {" in it`, string(out))
	case !strings.HasSuffix(string(out), "data: [DONE]\n\n"):
		t.Errorf("out: got %q, want the suffix %q", string(out), "data: [DONE]\n\n")
	}
	for _, fact := range []string{m.Base() + "/v1", m.Key(), "Answered by"} {
		if !strings.Contains(m.Output(), fact) {
			t.Errorf("the summary does not show %s", fact)
		}
	}
}
