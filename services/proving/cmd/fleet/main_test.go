package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/standalone/logins"
)

// TestMain lets up start this binary as the supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := command(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(1)
		}
		return
	}
	trial.Main(m)
}

// fleetOf is a folder, and the flags for a fleet in it. The fleet is stopped with the
// test.
type fleetOf struct {
	t     *testing.T
	dir   string
	flags []string
}

func newFleet(t *testing.T) *fleetOf {
	t.Helper()
	if testing.Short() {
		t.Skip("a fleet is for make e2e")
	}
	dir := trial.Dir(t)
	f := &fleetOf{t, dir, []string{"-dir", dir, "-bin", trial.Programs(t, ""), "-free-ports", "-drain-delay", "100ms"}}
	t.Cleanup(func() { f.must("down") })
	return f
}

func (f *fleetOf) run(name string, args ...string) (string, error) {
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	err := command(ctx, append(append([]string{name}, f.flags...), args...), os.Environ(), &out, &out)
	return out.String(), err
}

func (f *fleetOf) must(name string, args ...string) string {
	f.t.Helper()
	out, err := f.run(name, args...)
	if err != nil {
		f.t.Fatalf("%s: %v\n%s\n%s", name, err, out, f.verification())
	}
	return out
}

// verification is what the verifiers wrote: a fleet is up when their benchmarks are passed.
func (f *fleetOf) verification() []byte {
	var all []byte
	for _, name := range []string{"verifier-1.log", "verifier-2.log"} {
		text, err := os.ReadFile(filepath.Join(f.dir, "log", name))
		if err != nil {
			text = []byte(err.Error())
		}
		all = append(all, text[max(0, len(text)-maxShown):]...)
	}
	return all
}

// maxShown bounds what is shown of a log, in bytes.
const maxShown = 8 << 10

func (f *fleetOf) status() map[string]fleet.Status {
	f.t.Helper()
	var all []fleet.Status
	if err := json.Unmarshal([]byte(f.must("status", "-json")), &all); err != nil {
		f.t.Fatal(err)
	}
	byName := map[string]fleet.Status{}
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName
}

// steady waits until all processes run and all of them but agents are ready, because a
// status counts a process that has no time to answer as not ready.
func (f *fleetOf) steady() map[string]fleet.Status {
	f.t.Helper()
	var all map[string]fleet.Status
	trial.Until(f.t, "all processes are ready", func() bool {
		all = f.status()
		for _, s := range all {
			if s.Pid == 0 || s.State != fleet.StateReady && (s.Program != fleet.Agent || s.State != fleet.StateUp) {
				return false
			}
		}
		return true
	})
	return all
}

func gone(pid int) bool { return syscall.Kill(pid, 0) != nil }

func TestAFleetComesUpAnswersIsRolledAndGoesDown(t *testing.T) {
	f := newFleet(t)
	shown := f.must("up")
	for _, fact := range []string{"The fleet is running.", "API key", "curl -N http://127.0.0.1:", "fleet down stops"} {
		if !strings.Contains(shown, fact) {
			t.Errorf("up does not show %q:\n%s", fact, shown)
		}
	}
	m := trial.Attach(trial.ReadEnv(t, filepath.Join(f.dir, "fleet.env")))
	ask := func() {
		t.Helper()
		if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(),
			trial.Chat(m.Model(), `,"max_tokens":8`)); status != http.StatusOK {
			t.Errorf("status: got %d, want 200 (body is %s)", status, body)
		}
	}
	ask()
	before := f.steady()
	if len(before) != 22 {
		t.Errorf("processes: got %d, want 22", len(before))
	}
	trial.Until(t, "status shows all of them", func() bool {
		return len(regexp.MustCompile(`(?m) (ready|running) `).FindAllString(f.must("status"), -1)) == len(before)
	})
	if again := f.must("up"); !strings.Contains(again, "running already") {
		t.Errorf("a second up shows\n%s", again)
	}
	f.must("restart", "router", "catalog-2")
	after := f.steady()
	for name := range before {
		rolled := name == "router-1" || name == "router-2" || name == "catalog-2"
		if rolled == (before[name].Pid == after[name].Pid) {
			t.Errorf("%s had pid %d and has %d: got %t, want any but %t", name, before[name].Pid, after[name].Pid, rolled,
				before[name].Pid == after[name].Pid)
		}
	}
	ask()
	if out, err := f.run("restart", "verifiers"); err == nil {
		t.Errorf("a service that is not there was restarted: %s", out)
	}
	f.must("down")
	for name, s := range after {
		if !gone(s.Pid) {
			t.Errorf("%s is still there", name)
		}
	}
	if out := f.must("down"); !strings.Contains(out, "not running") {
		t.Errorf("a second down shows\n%s", out)
	}
	if out := f.must("status"); !strings.Contains(out, "not running") {
		t.Errorf("status without a fleet shows\n%s", out)
	}

	// The second fleet finds what the first one made.
	f.must("up")
	again := trial.Attach(trial.ReadEnv(t, filepath.Join(f.dir, "fleet.env")))
	if again.Key() != m.Key() {
		t.Errorf("the keys of the second start: again.Key(): got %q, want %q", again.Key(), m.Key())
	} else if again.Env["SVC_PROVIDER_KEY"] != m.Env["SVC_PROVIDER_KEY"] {
		t.Errorf(`the keys of the second start: again.Env["SVC_PROVIDER_KEY"]: got %q, want %q`,
			again.Env["SVC_PROVIDER_KEY"], m.Env["SVC_PROVIDER_KEY"])
	}
	m = again
	ask()
}

func TestAKilledSupervisorLeavesNothingBehind(t *testing.T) {
	f := newFleet(t)
	f.must("up")
	all := f.status()
	s, err := locate(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for name, process := range all {
		trial.Until(t, name+" is gone", func() bool { return gone(process.Pid) })
	}
	if out := f.must("status"); !strings.Contains(out, "not running") {
		t.Errorf("status shows\n%s", out)
	}
	f.must("up") // with what the first fleet left
}

func TestCommandLinesAreChecked(t *testing.T) {
	for _, args := range [][]string{nil, {"fly"}, {"up", "now"}, {"restart"}, {"status", "-nonsense"}, {"down", "-json"}} {
		var out bytes.Buffer
		if err := command(t.Context(), args, nil, &out, &out); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	var out bytes.Buffer
	if err := command(t.Context(), []string{"help"}, nil, &out, &out); err != nil {
		t.Errorf("help: got the error %v, want none", err)
	} else if !strings.Contains(out.String(), "usage") {
		t.Errorf(`help: out: got %q, want "usage" in it`, out.String())
	}
}

func TestAFleetThatDoesNotStartSaysWhere(t *testing.T) {
	f := newFleet(t)
	f.flags[3] = t.TempDir() // no programs
	out, err := f.run("up")
	if err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Fatalf("got %v and\n%s\nwant a fleet that did not start", err, out)
	}
	for _, service := range logins.Services() {
		if !strings.Contains(out, service+" migrate") {
			t.Errorf("the output does not name %s, whose program is missing:\n%s", service, out)
		}
	}
}
