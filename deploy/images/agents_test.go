package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"svc.internal/deploy/images/archive"
)

// distribution writes what make agents writes, with a script as the agent.
func distribution(t *testing.T) string {
	t.Helper()
	agent := []byte("#!/bin/sh\necho svc-agent of the test\n")
	docs := []archive.File{{Name: "LICENSE", Bytes: []byte("l\n")}, {Name: "README.md", Bytes: []byte("r\n")}}
	made := make([][]archive.File, len(targets))
	for i, target := range targets {
		var err error
		if made[i], err = archivesOf(target, agent, docs, testCommit); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "agents")
	if err := writeAgents(out, made); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEverySystemHasAnArchiveAndLinuxAPackage(t *testing.T) {
	out := distribution(t)
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"svc-agent-linux-amd64.tar.gz", "svc-agent-linux-arm64.tar.gz",
		"svc-agent-darwin-amd64.tar.gz", "svc-agent-darwin-arm64.tar.gz", "svc-agent-amd64.deb", "svc-agent-arm64.deb",
		"install.sh"} {
		if !bytes.Contains(sums, []byte("  "+name+"\n")) {
			t.Errorf("SHA256SUMS: got %q, want %q in it", sums, name)
		}
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
	}
}

func TestTheScriptInstallsOnlyWhatTheChecksumsName(t *testing.T) {
	out, home := distribution(t), t.TempDir()
	install := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(out, "install.sh")}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	program := filepath.Join(home, ".local/bin/svc-agent")
	if text, err := install("--dry-run"); err != nil {
		t.Errorf("a dry run: got the error %v, want none: %s", err, text)
	}
	if _, err := os.Stat(program); err == nil {
		t.Error("a dry run has installed something")
	}
	text, err := install()
	if err != nil {
		t.Fatalf("got the error %v, want none: %s", err, text)
	}
	if !strings.Contains(text, "installed: svc-agent of the test") {
		t.Errorf("got %q, want that it is installed", text)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(out, "svc-agent-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz")
	if err := os.WriteFile(name, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := install(); err == nil {
		t.Errorf("an archive that was changed: got %q, want an error", text)
	}
	if _, err := os.Stat(program); err == nil {
		t.Error("an archive that was changed is installed")
	}
}
