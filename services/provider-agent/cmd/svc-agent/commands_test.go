package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
	"svc.internal/services/provider-agent/internal/control"
	"svc.internal/services/provider-agent/internal/service"
)

func plainText(text string, _ colour) string { return text }

func TestTheOtherCommandsReachTheAgentThatRuns(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("m", fakeengine.Behaviour{})
	hub, dir := hubtest.New(t), t.TempDir()
	models := write(t, "models.json", `{"models":[{"model_id":"m","engine_url":"`+engine.URL+`/v1"}]}`)
	key := write(t, "key", providerKeyText(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		args := []string{"run", "-ws", hub.URL, "-models", models, "-state", dir, "-key-file", key}
		done <- command(ctx, args, nil, io.Discard, io.Discard)
	}()
	ended := false
	t.Cleanup(func() {
		cancel()
		if !ended { // the test has failed before
			t.Logf("run: %v", <-done)
		}
	})
	hub.AcceptLive()
	says := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := command(t.Context(), append(args, "-state", dir), nil, &out, io.Discard); err != nil {
			t.Fatalf("%s: got the error %v, want none", args[0], err)
		}
		return out.String()
	}
	do := func(want string, args ...string) {
		t.Helper()
		if got := says(args...); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", args[0], got, want)
		}
	}
	for !strings.Contains(says("status", "-once"), "agent      connected\n") {
		runtime.Gosched() // the hub has sent its welcome, and the agent is reading it
	}
	do("paused: no new requests come", "pause")
	do("paused: svc-agent resume", "status") // the account cannot be told without a service
	do("taken again", "resume")
	do("agent      connected\n", "status", "-once")
	do("the agent has ended", "drain")
	if err := <-done; err != nil {
		t.Errorf("run: got the error %v, want none", err)
	}
	ended = true
	if err := command(t.Context(), []string{"pause", "-state", dir}, nil, io.Discard, io.Discard); err == nil {
		t.Error("pause without an agent: got no error, want one")
	}
}

func TestAFrameFitsTheTerminal(t *testing.T) {
	text := "one\n" + coloured("two is long", red) + "\nthree\nfour\nfive\n"
	got := screen(text, 4, 6)
	for _, want := range []string{"one\x1b[K", "\x1b[31mtwo is\x1b[0m\x1b[K", "… 3 mo"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	if strings.Contains(got, "three") {
		t.Errorf("got %q, want it without the third line", got)
	}
	if n := strings.Count(got, "\n"); n > 3 {
		t.Errorf("lines: got %d, want at most 3", n)
	}
}

func TestEarningsAreSummedExactlyAndNoNumberFillsTheMemory(t *testing.T) {
	all := []service.Statement{{Day: "2026-11-21", Amount: "0.000000001"}, {Day: "2026-11-20", Amount: "0.1"},
		{Day: "2026-11-10", Amount: "7"}, {Day: "2026-11-21", Amount: "1e999999999"}, {Day: "2026-09-01", Amount: "1000"}}
	for days, want := range map[int]string{1: "0.000000001", 7: "0.100000001", 30: "7.100000001"} {
		if got := sumOf(all, "2026-11-21", days); got != want {
			t.Errorf("%d days: got %q, want %q", days, got, want)
		}
	}
}

func TestEarningsAndBenchmarksAreShown(t *testing.T) {
	account, err := service.ParseAccount([]byte(`{"earnings":{"settled_usd_str":"1.5","held_usd_str":"0.2",` +
		`"payable_usd_str":"9","batched_through":"2026-11-21"},"models":[{"model_id":"m","benchmark":"proven",` +
		`"benchmark_expires_at":"2026-12-21T20:00:00Z","trust":"normal","lane":"main","context_length":8192}]}`))
	if err != nil {
		t.Fatal(err)
	}
	p := picture{status: &service.Status{Status: "active"}, account: &account, earnings: account.Earnings,
		Agent: &control.State{Connection: control.Connecting, Fault: "why", ModelsFault: "models.json:\nline 3, column 4: no",
			Failures: []control.Failure{{Reason: "cut off"}}}}
	var out bytes.Buffer
	if err := writePicture(&out, p, plainText); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not connected: why", "cut off", "the models stay as they were: models.json: line 3",
		"SETTLED", "1.5", "proven, until 2026-12-21 20:00 UTC", "through 2026-11-21"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out.String(), want)
		}
	}
}

// The shells themselves read the scripts, where they are installed.
func TestShellsReadTheCompletion(t *testing.T) {
	for _, shell := range shells {
		var out bytes.Buffer
		if err := command(t.Context(), []string{"completion", shell}, nil, &out, io.Discard); err != nil {
			t.Fatalf("%s: got the error %v, want none", shell, err)
		}
		for _, want := range []string{"svc-agent", "doctor", "models"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: got %q, want %q in it", shell, out.String(), want)
			}
		}
		if program, err := exec.LookPath(shell); err == nil {
			cmd := exec.CommandContext(t.Context(), program, "-n", write(t, "script", out.String()))
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: got the error %v, want none: %s", shell, err, text)
			}
		}
	}
	script := write(t, "script", bash(described(t.Context(), commands())))
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `. "$0"; COMP_WORDS=(svc-agent doctor --js); COMP_CWORD=2; `+
		`_svc_agent; echo "${COMPREPLY[@]}"`, script)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("got the error %v, want none: %s", err, text)
	}
	if got := strings.TrimSpace(string(text)); got != "--json" {
		t.Errorf("--js of doctor: got %q, want --json", got)
	}
	for line, want := range map[string]string{"-l json ": "-l json -d", "-l state ": "-l state -r -d"} {
		if text := fish(described(t.Context(), commands())); !strings.Contains(text, line) {
			t.Errorf("fish: %q is missing", line)
		} else if strings.Count(text, line) != strings.Count(text, want) {
			t.Errorf("fish: %q: got another end than %q", line, want)
		}
	}
	if err := command(t.Context(), []string{"completion", "csh"}, nil, io.Discard, io.Discard); err == nil {
		t.Error("a shell that is not known: got no error, want one")
	}
}

func TestADryInstallChangesNothing(t *testing.T) {
	home := t.TempDir()
	environ := []string{"HOME=" + home, "SVC_PROVIDER_KEY=file:" + write(t, "key", providerKeyText(t)), "SVC_REGION=eu"}
	for _, args := range [][]string{{"service", "install", "-dry-run"}, {"service", "install", "-dry-run", "-system"},
		{"service", "uninstall", "-dry-run"}} {
		var out bytes.Buffer
		if err := command(t.Context(), args, environ, &out, io.Discard); err != nil {
			t.Fatalf("%v: got the error %v, want none", args, err)
		}
		for _, want := range []string{"svc-agent", "nothing was changed"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: got %q, want %q in it", args, out.String(), want)
			}
		}
		left, err := os.ReadDir(home)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("%v: entries of the home: got %d, want none", args, len(left))
		}
	}
	err := command(t.Context(), []string{"service", "install", "-dry-run"}, []string{"HOME=" + home,
		"SVC_PROVIDER_KEY=sk-prov-secret"}, io.Discard, io.Discard)
	if err == nil {
		t.Fatal("a key in the environment: got no error, want one")
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("got %q, want it without the key", err)
	}
}

// Anybody on the machine may read the file of a service.
func TestAServiceIsNotToldThePasswordThatSetupWasGiven(t *testing.T) {
	var out bytes.Buffer
	err := command(t.Context(), []string{"service", "install", "-dry-run"}, []string{"HOME=" + t.TempDir(),
		"SVC_SETUP_PASSWORD=right horse", "SVC_REGION=eu", "HF_HOME=/models", "HF_TOKEN=right horse"}, &out, io.Discard)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if strings.Contains(out.String(), "right horse") {
		t.Errorf("got %q, want it without the password and others' secrets", out.String())
	}
	for _, want := range []string{"SVC_REGION=eu", "HF_HOME=/models"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out.String(), want)
		}
	}
}

// systemctl is a script that notes how it is called.
func TestAServiceIsInstalledAndRemoved(t *testing.T) {
	home, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	dir := t.TempDir()
	script := []byte("#!/bin/sh\necho \"$@\" >>" + calls + "\n")
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	environ := []string{"HOME=" + home}
	path := filepath.Join(home, ".config/systemd/user/svc-agent.service")
	if err := command(t.Context(), []string{"service", "install"}, environ, io.Discard, io.Discard); err != nil {
		t.Fatalf("install: got the error %v, want none", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the unit: got the error %v, want none", err)
	}
	if err := command(t.Context(), []string{"service", "uninstall"}, environ, io.Discard, io.Discard); err != nil {
		t.Fatalf("uninstall: got the error %v, want none", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the unit is there behind uninstall")
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), "--user enable --now svc-agent\n--user disable --now svc-agent\n"; got != want {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}
